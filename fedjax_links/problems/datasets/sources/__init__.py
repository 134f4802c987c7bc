"""Published data, from the publishers' own files to the npz that `images` and `text` read.

`fetch` downloads, verifies and converts. `RECIPES` holds, by name, what is published: addresses,
checksums, how it is read.
"""

from fedjax_links.problems.datasets.sources.fetching import fetch
from fedjax_links.problems.datasets.sources.recipes import RECIPES, File, Recipe

__all__ = ['RECIPES', 'File', 'Recipe', 'fetch']
