"""Data, losses and models."""
