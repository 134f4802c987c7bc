"""Certificates: programs of a machine compared with float64 and with another machine."""
