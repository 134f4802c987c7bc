"""What is done to runs and configs on purpose: spoilt fields, kills, flipped bits."""
