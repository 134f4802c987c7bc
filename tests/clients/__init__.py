"""What a client does, and who computes."""
