"""Pages and records of studies against what makes them."""
