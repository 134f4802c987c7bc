"""Describes the CPU of this machine, and the settings under which CPUs round in the same way.

This module imports neither JAX nor NumPy, which read the settings when they are imported.
"""

import errno
import itertools
import json
import os
import platform
import zlib
from pathlib import Path

_INFO = Path('/proc/cpuinfo')
# The names of a core's model in that file, on x86 and POWER. ARM has two numbers instead.
_MODELS = ('model name', 'cpu')
_ARM_NUMBERS = ('CPU implementer', 'CPU part')
# The names of the list of instructions in that file, on x86 and on ARM.
_INSTRUCTIONS = ('flags', 'Features')
# Beginnings of the names of vector instructions.
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
"""Variables that choose the instructions and threads of NumPy's sums and matrix products."""


def num_cores() -> int | None:
    """Returns how many cores this process may use; None if the system does not report it."""
    if hasattr(os, 'sched_getaffinity'):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def num_threads() -> int:
    """Returns how many threads share a loop of XLA: ``NPROC``, or one for each core."""
    number = os.environ.get('NPROC', '')
    if number.isdecimal() and int(number):
        return int(number)
    return num_cores() or 1


def portable_variables() -> dict[str, str]:
    """Returns environment variables with which many machines compute the same bits.

    Programs use no instructions beyond AVX2, and one thread computes each product. A GPU takes
    neither atomic sums nor the kernels that it finds fastest. Other flags for XLA stay as they are
    set. The variables must be set before Python starts, as JAX and NumPy read them once.
    """
    names = {flag.partition('=')[0] for flag in _XLA_FLAGS}
    others = [flag for flag in xla_flags() if flag.partition('=')[0] not in names]
    return {**_VARIABLES, 'XLA_FLAGS': ' '.join([*others, *_XLA_FLAGS])}


def xla_flags() -> list[str]:
    """Returns the flags of ``XLA_FLAGS`` that have an effect: the last flag of each name."""
    flags = os.environ.get('XLA_FLAGS', '').split()
    return list({flag.partition('=')[0]: flag for flag in flags}.values())


def is_portable() -> bool:
    """Returns whether this process has the variables of `portable_variables`."""
    has_flags = set(_XLA_FLAGS) <= set(xla_flags())
    return has_flags and all(
        os.environ.get(name) == value for name, value in _VARIABLES.items()
    )


def cache_folder(*names: str) -> Path:
    """Returns the path of a folder in the user's cache, for files that can be made again.

    Raises:
      FileNotFoundError: for a user without a home, as in a container with an unknown user.
    """
    folder = os.environ.get('XDG_CACHE_HOME')
    if folder is not None:
        home = Path(folder)
    else:
        try:
            home = Path.home() / '.cache'
        except RuntimeError as error:
            raise FileNotFoundError(errno.ENOENT, str(error), '~') from None
    return home.joinpath('fedjax_links', *names)


def digest(values: object) -> str:
    """Returns a short hash of plain values, for names of files."""
    return f'{zlib.crc32(json.dumps(values, sort_keys=True).encode()):08x}'


def kind() -> str:
    """Returns a short hash of this kind of CPU, for the folder of programs compiled for it."""
    return digest(fingerprint())


def fingerprint() -> dict[str, object]:
    """Returns the properties of the CPU that decide how sums are rounded, as plain values.

    The properties are the architecture, the model, the vector instructions and the number of
    threads that share a loop. With `portable_variables`, all machines have the model
    ``'portable'``.
    """
    known = {'architecture': platform.machine(), 'threads': num_threads()}
    if is_portable():
        return {**known, 'cpu': 'portable', 'instructions': 'AVX2'}
    info = _first_core()
    instructions = next((info[name] for name in _INSTRUCTIONS if name in info), '')
    vectors = sorted(name for name in instructions.split() if name.startswith(_VECTORS))
    return {**known, 'cpu': _model(info), 'instructions': ' '.join(vectors)}


def _model(info: dict[str, str]) -> str:
    """Returns the model of a core from the core's properties, else as Python reports it."""
    # Some ARM cores also have a model name, but it only names the architecture.
    if all(name in info for name in _ARM_NUMBERS):
        return ' '.join(info[name] for name in _ARM_NUMBERS)
    return next((info[name] for name in _MODELS if name in info), platform.processor())


def _first_core() -> dict[str, str]:
    """Returns the properties of the first core by name, as the system reports them."""
    if not _INFO.exists():
        return {}
    with _INFO.open() as lines:
        # The next core comes after a blank line.
        pairs = (line.partition(':') for line in itertools.takewhile(str.strip, lines))
        return {name.strip(): value.strip() for name, _, value in pairs}
