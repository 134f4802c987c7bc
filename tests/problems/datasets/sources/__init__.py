"""Published data: downloads and their formats."""
