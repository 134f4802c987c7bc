"""The tests of the package, its documents, its benchmarks and its studies."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
