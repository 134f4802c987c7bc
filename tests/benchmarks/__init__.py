"""Every benchmark at a tiny size."""
