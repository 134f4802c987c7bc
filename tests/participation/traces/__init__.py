"""Logs of availability."""
