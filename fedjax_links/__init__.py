"""Federated learning over unreliable links and arbitrary participation, exactly and fast.

The names below are loaded on first use, so that command lines start without JAX.
"""

import importlib
from typing import Any

_NAMES = {
    'ALGORITHMS': 'algorithms',
    'PARTICIPATION': 'participation',
    'PROBLEMS': 'problems',
    'simulate': 'simulation',
    'sweep': 'sweeps',
}
_MODULES = (
    'algorithms',
    'analysis',
    'base',
    'cohorts',
    'evaluation',
    'learning_rates',
    'local_training',
    'mixing',
    'participation',
    'problems',
    'prng',
    'simulation',
    'sweeps',
    'testing',
    'tree',
)

__all__ = [*_NAMES, *_MODULES]
__version__ = '0.1.0'


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f'{__name__}.{_NAMES[name]}'), name)
    if name in _MODULES:
        return importlib.import_module(f'{__name__}.{name}')
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def __dir__() -> list[str]:
    return [*globals(), *__all__]
