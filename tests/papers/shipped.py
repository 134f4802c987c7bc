"""Shipped configs of figures, at full or quick size."""

import decimal
import functools
import importlib

from fedjax_links.config import nested, resolver
from fedjax_links.pages import figure
from tests import ROOT

CONFIGS = ROOT / 'configs'


def config(name, *, size=nested.quick, **changes):
    """Returns a file of configs/ as dictionaries, at a size, with options of its figure changed."""
    values = size(importlib.import_module(f'configs.{name}').get_config().to_dict())
    if changes:
        values['figure'].update(changes)
    return values


def drawn(name, *, size=nested.quick, **changes):
    """Computes a shipped figure, and what draws it."""
    with resolver.importable(CONFIGS):
        return figure.build(config(name, size=size, **changes))


@functools.cache
def numbers(name, *, size=nested.quick, **changes):
    """Computes the columns of a shipped figure once; callers share them."""
    return drawn(name, size=size, **changes).columns


def half_a_unit(text):
    """Returns the largest error of rounding to the printed digits of a number."""
    return 0.5 * 10.0 ** decimal.Decimal(text).as_tuple().exponent
