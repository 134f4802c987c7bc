"""Times convolution as a matrix product against XLA's own, in the local training of one cohort.

The FashionMNIST network of Wang and Ji: 10 clients, 5 steps of batch 16. The clients train side by
side (vmap) or one after another (scan); both take their steps in a scan.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

from benchmarks import common, summary
from fedjax_links.problems import models

TOLERANCE = 1e-4  # float32, a few steps; ties in pooling are rare on noise


class Settings(NamedTuple):
    """Holds the size of the workload."""

    num_clients: int = 10
    local_steps: int = 5
    batch_size: int = 16
    image_size: int = 28
    channels: tuple[int, ...] = (32, 32)
    kernel_size: int = 5
    hidden: tuple[int, ...] = (128,)
    learning_rate: float = 0.05


QUICK = Settings(num_clients=4, local_steps=2)
ORDERS: dict[str, Callable[..., Any]] = {
    'vmap': jax.vmap,
    'scan': lambda client: lambda *rows: jax.lax.map(lambda row: client(*row), rows),
}


def network(settings: Settings, convolution: Callable[..., jax.Array]) -> nn.Module:
    """Returns the network with one of the two convolutions; both have the same parameters."""
    return models.CNN(
        10,
        channels=settings.channels,
        kernel_size=settings.kernel_size,
        hidden=settings.hidden,
        convolution=convolution,
    )


def inputs(settings: Settings) -> tuple[Any, jax.Array, jax.Array]:
    """Returns parameters, images [N, steps, B, H, W, 1] of noise, and labels [N, steps, B]."""
    rng = np.random.default_rng(0)
    shape = (settings.num_clients, settings.local_steps, settings.batch_size)
    side = settings.image_size
    images = rng.standard_normal((*shape, side, side, 1), np.float32)
    labels = rng.integers(0, 10, shape).astype(np.int32)
    module = network(settings, jax.lax.conv_general_dilated)
    params = jax.jit(module.init)(jax.random.key(0), jnp.asarray(images[0, 0]))[
        'params'
    ]
    return params, jnp.asarray(images), jnp.asarray(labels)


def train(
    params: Any,
    images: jax.Array,
    labels: jax.Array,
    *,
    settings: Settings,
    convolution: Callable[..., jax.Array],
    order: str,
) -> Any:
    """Returns every client's model and losses after its local steps."""
    module = network(settings, convolution)

    def loss(params, images, labels):
        logits = module.apply({'params': params}, images)
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels))

    def step(params, batch):
        value, grads = jax.value_and_grad(loss)(params, *batch)
        return jax.tree.map(
            lambda p, g: p - settings.learning_rate * g, params, grads
        ), value

    def client(images, labels):
        return jax.lax.scan(step, params, (images, labels))

    return ORDERS[order](client)(images, labels)


def compare(settings: Settings, repeats: int) -> dict[str, Any]:
    """Proves all four programs equal, then times them in turns."""
    convolutions = {
        'xla': jax.lax.conv_general_dilated,
        'matmul': models.CNN.convolution,
    }
    programs = {
        f'{name}_{order}': functools.partial(
            train, settings=settings, convolution=convolution, order=order
        )
        for name, convolution in convolutions.items()
        for order in ORDERS
    }
    timings, results = common.alternate(programs, inputs(settings), repeats=repeats)
    gaps = [
        common.require_close(
            results[name],
            results['xla_vmap'],
            tolerance=TOLERANCE,
            what=f'convolution: {name}',
        )
        for name in programs
    ]
    rows = [
        summary.ratio_row(
            f'the FashionMNIST network, clients by {order}, speed relative to lax.conv',
            timings[f'xla_{order}'].seconds,
            timings[f'matmul_{order}'].seconds,
        )
        for order in ORDERS
    ]
    return {
        'settings': settings._asdict(),
        'largest_difference': max(gaps),
        'tolerance': TOLERANCE,
        'programs': {
            name: {
                'compile_seconds': round(timing.compile_seconds, 3),
                'seconds_per_round': round(timing.median, 4),
            }
            for name, timing in timings.items()
        },
        'rows': rows,
    }


def measure(quick: bool) -> dict[str, Any]:
    """Runs this benchmark and returns its record."""
    return compare(QUICK if quick else Settings(), repeats=1 if quick else 3)


if __name__ == '__main__':
    common.main('convolution', 'Convolution as a matrix product against XLA.', measure)
