"""Data sets and their files."""
