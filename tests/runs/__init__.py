"""What is done with runs."""
