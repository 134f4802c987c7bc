"""Linear models: minimisers of weighted losses."""
