"""Tables and pictures of a report."""
