"""Describes where a run takes place: versions, devices, numerics."""

import importlib
import platform
import sys
import time
from importlib import metadata

import jax

from fedjax_links.machines import cpus

_DEPENDENCIES = ('jax', 'jaxlib', 'numpy', 'flax', 'optax')
# The first jaxlib that is known to compile scans and scaled layers right on GPUs.
_FIXED_VERSION = (0, 11, 1)
# Beginnings of flags of XLA that change no bits.
_WITHOUT_EFFECT = '--xla_force_host_platform_device_count', '--xla_dump'


def present() -> dict[str, object]:
    """Returns versions, devices, precision and the command's flags, as plain values."""
    devices = jax.devices()
    return {
        **fingerprint(),
        'versions': {
            'fedjax_links': version(),
            **{name: metadata.version(name) for name in _DEPENDENCIES},
        },
        'date': time.strftime('%Y-%m-%d', time.gmtime()),
        'host': platform.node(),
        'python': platform.python_version(),
        'platform': platform.platform(),
        'devices': [device.device_kind for device in devices],
        'backend': jax.default_backend(),
        'precision': jax.dtypes.canonicalize_dtype(float).name,
        'matmul_precision': numerics()['jax_default_matmul_precision'] or 'default',
        'flags': sys.argv[1:],
    }


def fingerprint() -> dict[str, object]:
    """Returns what two machines must have in common to give the same bits, as plain values."""
    device = jax.devices()[0]
    flags = sorted(cpus.xla_flags())
    return {
        **cpus.fingerprint(),
        'device_kind': device.device_kind,
        'driver': device.client.platform_version,
        'xla_flags': [flag for flag in flags if not flag.startswith(_WITHOUT_EFFECT)],
        'jax': metadata.version('jax'),
        'jaxlib': metadata.version('jaxlib'),
        'numerics': numerics(),
    }


def version() -> str:
    """Returns the version of this package, even if the package is not installed."""
    return str(importlib.import_module('fedjax_links').__version__)


def warnings() -> list[str]:
    """Returns the mistakes that the installed compiler is known to make on this backend."""
    version = metadata.version('jaxlib')
    numbers = tuple(int(part) for part in version.split('.')[:3] if part.isdecimal())
    if jax.default_backend() != 'gpu' or numbers >= _FIXED_VERSION:
        return []
    fixed = '.'.join(map(str, _FIXED_VERSION))
    return [
        f'jaxlib {version} compiles some scans and scaled layers wrong on GPUs '
        f'(mended in {fixed} as far as is known)'
    ]


def numerics() -> dict[str, object]:
    """Returns the backend and the options of JAX that change random numbers or rounding."""
    names = (
        'jax_default_matmul_precision',
        'jax_default_prng_impl',
        'jax_enable_x64',
        'jax_random_seed_offset',
        'jax_threefry_partitionable',
    )
    return {
        'backend': jax.default_backend(),
        **{name: getattr(jax.config, name) for name in names},
    }
