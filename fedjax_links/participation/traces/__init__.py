"""Availability logs, which record when devices were up: file formats, and patterns from logs."""
