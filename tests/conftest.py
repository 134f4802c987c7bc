"""Strict JAX settings for the whole suite, and one compilation cache for all of its processes."""

import jax
import numpy as np
import pytest

jax.config.update('jax_numpy_rank_promotion', 'raise')
jax.config.update('jax_debug_key_reuse', True)


def pytest_configure(config):
    """Lets tests that compile the same program share it."""
    if hasattr(config, 'cache'):  # unless pytest runs without its cache
        jax.config.update('jax_compilation_cache_dir', str(config.cache.mkdir('jax_programs')))
        jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.05)


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
