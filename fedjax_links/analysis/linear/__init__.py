"""Linear models: their minimisers and flows."""
