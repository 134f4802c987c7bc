"""What a config can name."""
