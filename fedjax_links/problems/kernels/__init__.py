"""Forms of convolutions and products that train faster on a CPU than XLA's own."""
