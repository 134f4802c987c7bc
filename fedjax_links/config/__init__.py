"""Turns the plain values of a config into objects, which registries know by name."""
