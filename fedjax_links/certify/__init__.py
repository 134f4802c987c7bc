"""Certifies devices: compares their programs with float64 on a CPU, and with theory."""
