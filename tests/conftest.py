"""Strict JAX settings for the whole suite, programs that compile fast, and one cache of them."""

import functools
import gc
import os
import pathlib
import sys

# NumPy reads it once. Two threads that share small matrix products mostly wait for each other.
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')

import jax
import numpy as np
import pytest

from tests import rendering

jax.config.update('jax_numpy_rank_promotion', 'raise')
# Lines of source cost a twentieth.
jax.config.update('jax_traceback_in_locations_limit', 0)
# The default takes a ninth of the time of tests that trace programs.
gc.set_threshold(10_000)

KEYS_CHECKED = {'conformance'}
"""The default run looks for reused keys here, where every algorithm and every pattern runs.

To follow each key through each program takes a sixth of the time, and the other tests draw by the
same few functions; the slow tests look in the rooms that draw, and a run with marks of its own,
such as that of every week, looks everywhere.
"""
DRAWING = {
    'algorithms',
    'clients',
    'conformance',
    'papers',
    'participation',
    'problems',
}

AS_USERS_COMPILE = {
    'xla_backend_optimization_level': 3,
    'xla_llvm_disable_expensive_passes': False,
    'xla_cpu_parallel_codegen_split_count': 32,
}
COMPILE_FAST = {
    'xla_backend_optimization_level': 0,
    'xla_llvm_disable_expensive_passes': True,
    'xla_cpu_parallel_codegen_split_count': 1,
}
"""The suite compiles much and computes little; so compiled, a program takes an eighth of the time.

All tests do so and share programs; a test marked `optimised`, and a run with XLA_FLAGS of its own
(`XLA_FLAGS= python -m pytest`), compile as users do.
"""
# An XLA that does not know a flag ends the process without a message.
if jax.__version_info__ < (0, 11):
    AS_USERS_COMPILE['xla_cpu_use_fusion_emitters'] = True
    COMPILE_FAST['xla_cpu_use_fusion_emitters'] = False

SLOW = 'slow and not release'
"""The slow tests of `.ci/run`."""

FOLDER = pathlib.Path(__file__).parent
OF_DOCUMENTS = [FOLDER / name for name in ('benchmarks', 'configs', 'docs', 'studies')]
"""What holds pages, configs and records to the code: left out of the default run unless named."""


def room(request):
    """The folder of `tests` that a test lies in, at any depth."""
    return request.path.relative_to(FOLDER).parts[0]


def pytest_ignore_collect(collection_path, config):
    """Leaves what holds documents to a run of its own, and to the slow tests."""
    if collection_path not in OF_DOCUMENTS or config.option.markexpr != 'not slow':
        return None
    for argument in config.args:
        path = pathlib.Path(argument.split('::')[0]).absolute()
        if path.is_relative_to(collection_path):
            return None
    return True


def as_flags(options):
    """Options of the compiler as XLA_FLAGS."""
    return ' '.join(f'--{name}={str(value).lower()}' for name, value in options.items())


def pytest_configure(config):
    """Lets tests that compile the same program share it, and has them compile fast."""
    os.environ.setdefault('XLA_FLAGS', as_flags(COMPILE_FAST))
    if hasattr(config, 'cache'):  # unless pytest runs without its cache
        folder = str(config.cache.mkdir('jax_programs'))
        jax.config.update('jax_compilation_cache_dir', folder)
        jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.05)
        # For processes that tests start.
        os.environ.setdefault('JAX_COMPILATION_CACHE_DIR', folder)
        os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0.05')


@pytest.fixture(autouse=True, scope='module')
def _key_reuse(request):
    """Has JAX raise where a random key is used twice; JAX keeps the programs of both apart."""
    marks = request.config.option.markexpr
    rooms = {'not slow': KEYS_CHECKED, SLOW: DRAWING}.get(marks, {room(request)})
    jax.config.update('jax_debug_key_reuse', room(request) in rooms)


def _jit_as_users(jit, *args, **options):
    """Jits as users do; what is inlined is a part of another program, without options."""
    if not options.get('inline'):
        options['compiler_options'] = AS_USERS_COMPILE
    return jit(*args, **options)


@pytest.fixture(autouse=True)
def _compiler(request, monkeypatch):
    """In a test marked `optimised`, makes `jax.jit` compile as it does for users."""
    if request.node.get_closest_marker('optimised'):
        monkeypatch.setattr(jax, 'jit', functools.partial(_jit_as_users, jax.jit))


@pytest.fixture(autouse=True)
def _closed_figures():
    """Closes what a test drew by pyplot, which keeps every figure for the next tests."""
    yield
    if 'matplotlib.pyplot' in sys.modules:
        sys.modules['matplotlib.pyplot'].close('all')


@pytest.fixture
def x64():
    """Double precision for one test."""
    jax.config.update('jax_enable_x64', True)
    yield
    jax.config.update('jax_enable_x64', False)


@pytest.fixture
def unrendered():
    """Has pictures drawn but not rendered, which takes longest: for tests that look at no pixel."""
    with rendering.skipped():
        yield


@pytest.fixture
def rng():
    """A NumPy generator with a fixed seed."""
    return np.random.default_rng(20231)
