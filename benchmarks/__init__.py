"""Workloads that are first proven equal to a plain program, then timed against it.

``python -m benchmarks.<name> [--quick] [--out FILE]`` prints one JSON record.
"""
