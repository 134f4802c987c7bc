"""Availability logs: intervals, formats, patterns that follow them."""
