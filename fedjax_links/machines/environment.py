"""Where a run takes place."""

import importlib
import os
import platform
import sys
import time
from importlib import metadata
from typing import Any

import jax

from fedjax_links.machines import cpus

_PACKAGES = ('fedjax_links', 'jax', 'jaxlib', 'numpy', 'flax', 'optax')
_MENDED = 0, 11, 1
_CHANGES_NO_BIT = '--xla_force_host_platform_device_count', '--xla_dump'


def present() -> dict[str, Any]:
    """Versions, devices, cores, precision and the flags of this process, as plain values."""
    devices = jax.devices()
    return {
        **fingerprint(),
        'versions': {name: metadata.version(name) for name in _PACKAGES},
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


def fingerprint() -> dict[str, Any]:
    """What decides whether two machines give the same bits, as plain values."""
    device, flags = jax.devices()[0], sorted(os.environ.get('XLA_FLAGS', '').split())
    return {
        **cpus.fingerprint(),
        'device_kind': device.device_kind,
        'driver': device.client.platform_version,
        'xla_flags': [flag for flag in flags if not flag.startswith(_CHANGES_NO_BIT)],
        'jax': metadata.version('jax'),
        'jaxlib': metadata.version('jaxlib'),
        'numerics': numerics(),
    }


def version() -> str:
    """Returns the version of this package."""
    return str(importlib.import_module('fedjax_links').__version__)


def warnings() -> list[str]:
    """What is known of this compiler that a run should not be trusted without a certificate."""
    version = metadata.version('jaxlib')
    numbers = tuple(int(part) for part in version.split('.')[:3] if part.isdecimal())
    if jax.default_backend() != 'gpu' or numbers >= _MENDED:
        return []
    mended = f'mended in {".".join(map(str, _MENDED))} as far as is known'
    return [
        f'jaxlib {version} compiles some scans and scaled layers wrong on GPUs ({mended})'
    ]


def numerics() -> dict[str, Any]:
    """What draws and rounding depend on besides the experiment, by JAX's names, as plain values."""
    names = (
        'jax_default_matmul_precision',
        'jax_default_prng_impl',
        'jax_enable_x64',
        'jax_random_seed_offset',
        'jax_threefry_partitionable',
    )
    return {
        'backend': jax.default_backend(),
        **{k: getattr(jax.config, k) for k in names},
    }
