"""Pages of tables and figures."""
