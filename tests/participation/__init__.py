"""Patterns against their exact laws."""
