"""Availability logs: their formats, and the patterns that follow them."""
