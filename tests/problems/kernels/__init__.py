"""Fast forms of products and convolutions."""
