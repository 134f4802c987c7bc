"""Turns the plain values of a config into objects, by registries of names."""
