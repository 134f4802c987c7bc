"""Samples of links, which participation patterns draw and algorithms read."""
