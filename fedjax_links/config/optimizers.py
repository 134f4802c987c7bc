"""Names optimizers for configs, and checks the options of optax's optimizers."""

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

from fedjax_links import algorithms
from fedjax_links.core import checks, errors
from fedjax_links.core.registry import Registry

_LARGEST = float(np.finfo(np.float32).max)
_DTYPES = {'accumulator_dtype', 'mu_dtype'}
_FLOATS = ('bfloat16', 'float16', 'float32', 'float64')
_SCHEDULES = {'learning_rate', 'weight_decay'}
"""Options that may be functions of the step."""
_FLAGS = {'bias_correction', 'centered', 'eps_in_sqrt', 'nesterov'}
_MAY_BE_NONE = {'momentum', *_DTYPES}
_BIASED = {'b1', 'b2'}
"""Decay rates of running means whose bias optax always corrects (for ``decay`` only on demand)."""
_RANGES: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(('accumulator_decay', 'b1', 'b2', 'decay', 'momentum'), (0, 1)),
    **dict.fromkeys(('eps', 'eps_root', 'initial_accumulator_value'), (0, _LARGEST)),
    **dict.fromkeys(('initial_scale', 'weight_decay'), (0, _LARGEST)),
    'learning_rate': (float(np.finfo(np.float32).tiny), _LARGEST),
}
"""By option of an optimizer, the range of its values."""


def _checked(factory: Callable[..., optax.GradientTransformation]) -> Any:
    """Wraps a factory of optax so that its options are checked; optax checks no options."""
    parameters = inspect.signature(factory)

    @functools.wraps(factory)
    def make(*args: Any, **options: Any) -> optax.GradientTransformation:
        arguments = parameters.bind(*args, **options).arguments
        for option, value in arguments.items():
            if value is not None or option not in _MAY_BE_NONE:
                _check_option(option, value)
        if arguments.get('bias_correction'):
            _check_below_one('decay', arguments.get('decay'))
        return factory(*args, **options)

    return make


def _check_option(option: str, value: Any) -> None:
    """Raises unless an option of an optimizer of optax has a value of its kind."""
    if option in _FLAGS:
        checks.flags(**{option: value})
    elif option in _DTYPES:
        _check_float_dtype(option, value)
    elif option in _RANGES and not (option in _SCHEDULES and callable(value)):
        checks.number_within(option, value, *_RANGES[option])
        if option in _BIASED:
            _check_below_one(option, value)


def _check_below_one(option: str, value: Any) -> None:
    """Raises for a decay of 1, where the correction of a mean's bias divides by zero."""
    if value is None or not checks.is_concrete(value):
        return
    if np.float32(value) == 1:
        raise errors.invalid(option, 'be below 1', value)


def _check_float_dtype(option: str, value: Any) -> None:
    """Raises unless a value is a dtype of floating-point numbers or one of its names."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore', DeprecationWarning)  # of NumPy's old names
            dtype = jnp.dtype(value)
    except (TypeError, ValueError):
        dtype = np.dtype(bool)
    if jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize <= 8:
        return
    if isinstance(value, str):
        raise errors.unknown_name(option, value, _FLOATS)
    raise errors.invalid(option, 'be a float dtype', errors.text_of(value))


_OPTAX = (optax.adagrad, optax.adam, optax.adamw, optax.rmsprop, optax.sgd, optax.yogi)
_SERVER_OPTIMIZERS = (algorithms.fedadagrad, algorithms.fedadam, algorithms.fedyogi)
OPTIMIZERS: Mapping[str, Callable[..., Any]] = Registry(
    {
        **{factory.__name__: _checked(factory) for factory in _OPTAX},
        **{factory.__name__: factory for factory in _SERVER_OPTIMIZERS},
    }
)
"""Optimizers by name; optax's optimizers take the learning rate as the first argument."""
