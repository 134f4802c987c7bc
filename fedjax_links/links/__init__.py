"""Samples of links, which patterns draw and algorithms read."""
