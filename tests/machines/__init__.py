"""Devices and processes."""
