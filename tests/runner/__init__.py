"""Lanes that run, are kept, and go on."""
