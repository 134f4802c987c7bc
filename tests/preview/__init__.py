"""What a config says before it runs."""
