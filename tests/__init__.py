"""The tests of the package, its documents and its benchmarks."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
