"""The CPU of this machine, the settings under which CPUs round alike, and caches by kind.

Nothing here imports what the settings are for.
"""

import errno
import itertools
import json
import os
import platform
import zlib
from pathlib import Path
from typing import Any

_INFO = Path('/proc/cpuinfo')
_MODELS, _INSTRUCTIONS = ('model name', 'Model', 'cpu'), ('flags', 'Features')
_VECTORS = ('avx', 'amx', 'fma', 'f16c', 'asimd', 'sve', 'bf16', 'i8mm')
_XLA_FLAGS = (
    '--xla_cpu_max_isa=AVX2',
    '--xla_cpu_multi_thread_eigen=false',
    '--xla_gpu_deterministic_ops=true',
    '--xla_gpu_autotune_level=0',
)
_VARIABLES = {
    'NPY_DISABLE_CPU_FEATURES': 'X86_V4 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL '
    'AVX512_ICL AVX512_SPR',
    'OPENBLAS_CORETYPE': 'Haswell',
    'OPENBLAS_NUM_THREADS': '1',
}
"""Whose vectors NumPy's own sums and its matrix products are made of."""


def num_cores() -> int | None:
    """The cores that this process may use; None where nothing says."""
    return (
        len(os.sched_getaffinity(0))
        if hasattr(os, 'sched_getaffinity')
        else os.cpu_count()
    )


def num_threads() -> int:
    """The threads that XLA cuts loops for: one for each core, or as ``NPROC`` says to XLA."""
    said = os.environ.get('NPROC', '')
    return int(said) if said.isdecimal() and int(said) else num_cores() or 1


def portable_variables() -> dict[str, str]:
    """The variables that make what this process computes the same on many machines.

    Programs use the instructions of AVX2 and no others, each product is one thread's, and a GPU
    takes neither atomic sums nor the kernels that it finds fastest. Flags for XLA that are set
    stay. Set before Python starts: JAX and NumPy read them once.
    """
    there = os.environ.get('XLA_FLAGS', '').split()
    ours = {flag.partition('=')[0] for flag in _XLA_FLAGS}
    kept = [flag for flag in there if flag.partition('=')[0] not in ours]
    return {**_VARIABLES, 'XLA_FLAGS': ' '.join([*kept, *_XLA_FLAGS])}


def is_portable() -> bool:
    """Whether this process has the variables of `portable_variables`."""
    has_flags = set(_XLA_FLAGS) <= set(os.environ.get('XLA_FLAGS', '').split())
    return has_flags and all(
        os.environ.get(name) == value for name, value in _VARIABLES.items()
    )


def cache(*names: str) -> Path:
    """A folder of the user's cache, there or not, for what can be made again.

    Raises:
      FileNotFoundError: for a user without a home, as in a container with an unknown user.
    """
    if (given := os.environ.get('XDG_CACHE_HOME')) is not None:
        home = Path(given)
    else:
        try:
            home = Path.home() / '.cache'
        except RuntimeError as error:
            raise FileNotFoundError(errno.ENOENT, str(error), '~') from None
    return home.joinpath('fedjax_links', *names)


def digest(values: Any) -> str:
    """A name for plain values."""
    return f'{zlib.crc32(json.dumps(values, sort_keys=True).encode()):08x}'


def kind() -> str:
    """A name of this kind of CPU, for what is compiled for it."""
    return digest(fingerprint())


def fingerprint() -> dict[str, object]:
    """What of the CPU decides how sums are rounded, as plain values.

    Its name, its vector instructions and how many threads loops are cut for; of a process with
    `portable_variables` no name.
    """
    known = {'architecture': platform.machine(), 'threads': num_threads()}
    if is_portable():
        return {**known, 'cpu': 'portable', 'instructions': 'AVX2'}
    said = _said()
    model = next((said[name] for name in _MODELS if name in said), platform.processor())
    every = next((said[name] for name in _INSTRUCTIONS if name in said), '').split()
    vectors = sorted(name for name in every if name.startswith(_VECTORS))
    return {**known, 'cpu': model, 'instructions': ' '.join(vectors)}


def _said() -> dict[str, str]:
    """What the system says of the first core."""
    if not _INFO.exists():
        return {}
    with (
        _INFO.open() as lines
    ):  # up to the first blank one, behind which is the next core
        pairs = (line.partition(':') for line in itertools.takewhile(str.strip, lines))
        return {name.strip(): value.strip() for name, _, value in pairs}
