"""Simulated means against exact ones, in standard errors."""
