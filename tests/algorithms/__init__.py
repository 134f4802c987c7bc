"""Every algorithm against a loop written from its paper."""
