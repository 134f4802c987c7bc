"""The configs of figures that are shipped, at either size."""

import decimal
import functools
import importlib

from fedjax_links.config import nested, resolver
from fedjax_links.pages import figure
from tests import ROOT

CONFIGS = ROOT / 'configs'


def config(name, *, size=nested.quick, **changes):
    """A file in configs/ as nested dictionaries, at a size, with some options changed."""
    values = size(importlib.import_module(f'configs.{name}').get_config().to_dict())
    if changes:
        values['figure'].update(changes)
    return values


@functools.cache
def numbers(name, *, size=nested.quick, **changes):
    """The columns of a shipped figure; callers share them."""
    with resolver.importable(CONFIGS):
        return figure.build(config(name, size=size, **changes)).columns


def half_a_unit(text):
    """What rounding to the printed digits of a number may have changed."""
    return 0.5 * 10.0 ** decimal.Decimal(text).as_tuple().exponent
