"""Published image data, from the publishers' own files to the npz that `problems.images` reads.

`fetch` downloads and converts, `convert` takes files that are there already, `status` says what is
there. `RECIPES` holds, by name, what is published: addresses, checksums, shapes, numbers.
"""

from fedjax_links.problems.datasets.sources.converting import Done, Status, convert, status
from fedjax_links.problems.datasets.sources.fetching import fetch
from fedjax_links.problems.datasets.sources.recipes import RECIPES, File, Recipe

__all__ = ['RECIPES', 'Done', 'File', 'Recipe', 'Status', 'convert', 'fetch', 'status']
