"""Every rule against a loop written from its paper."""
