"""How a run lies on disk."""
