"""From a config to objects, runs and what is said of them."""
