"""Commands as a user types them."""
