"""Certifies machines: compares their programs with float64 and with another machine."""
