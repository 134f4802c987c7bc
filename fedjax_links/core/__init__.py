"""What everything stands on: pytrees, keys, checks, the one error, registries, references."""
