"""Stands for `fedjax_links.datasets`, which is imported from here as in version 0.1.0."""

import sys

from fedjax_links import datasets

sys.modules[__name__] = datasets
