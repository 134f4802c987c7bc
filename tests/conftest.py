"""Strict JAX settings for the whole suite."""

import jax
import numpy as np
import pytest

jax.config.update('jax_numpy_rank_promotion', 'raise')
jax.config.update('jax_debug_key_reuse', True)


@pytest.fixture
def x64():
    """Double precision for one test."""
    jax.config.update('jax_enable_x64', True)
    yield
    jax.config.update('jax_enable_x64', False)


@pytest.fixture
def rng():
    """A NumPy generator with a fixed seed."""
    return np.random.default_rng(20231)
