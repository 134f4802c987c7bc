"""Proves that a workload through the engine computes what another program computes.

Rounding alone separates two correct programs little, until it turns a ReLU on or off or changes
which entry of a pooling window is the largest. In a network with 40,000 units per image that
happens after some steps. From then on, correct programs differ by as much as the rate moves a
model. Hence two parts:

* **One local step** of every active client, on images that leave every unit clear of its threshold,
  must agree as closely as float32 sums do.
* **Several rounds**, at a rate that may be smaller than the workload's, must agree as closely as
  two orders of the same sums do in the other program, up to a small factor and a few units.

The difference of an array of the model is the distance of the two results, over the distance that
the other program moved it from the initial model.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from benchmarks import images
from fedjax_links.base import Participation, Problem

_UNIT_ROUNDOFF = 2.0**-24
_PRODUCTS_PER_STEP = 8  # four layers, forward and backward, one after the other
_CANDIDATES = 64

SPREAD_FACTOR = 4.0
"""Allowed multiple of the reference's own spread. Errors of correct programs have one scale, and so
have their distances. Four leaves room for sums that the reference's two orders share."""

FEW_UNITS = 1e-3
"""Difference that is always allowed after several rounds, since a unit may turn between one pair of
programs and not between another. A unit is one of about 10 x 16 x 1,568 terms of random sign in one
of 15 steps of the smallest workload: ``1 / (15 sqrt(250,880)) = 1.3e-4`` of the distance moved."""

MOST_SPREAD = 0.01
"""Largest spread, relative to the distance moved, at which several rounds prove anything."""

Program = Callable[[Any, Problem, images.Schedule, images.Workload], Any]


def prove(
    key: jax.Array,
    module: nn.Module,
    workload: images.Workload,
    algorithm: images.AlgorithmOptions,
    links: Participation,
    reference: Program,
    twin: Program,
) -> dict[str, Any]:
    """Proves the engine equal to another program.

    Args:
      key: the run's.
      module: the network.
      workload: a single step is run at unit rate, then ``proof_rounds`` at ``proof_rate``.
      algorithm: the algorithm.
      links: the pattern; at least one client must be active in the first round.
      reference: ``(params, data, plan, workload) -> (model, losses)``, the other program.
      twin: the reference with its sums in another order.

    Returns:
      Difference and tolerance of both parts.

    Raises:
      ValueError: if the results differ, or if the reference parts so far from its twin that
        agreement would mean nothing.
    """
    data = images.problem(workload, module)
    one_step = workload._replace(num_rounds=1, local_steps=1, learning_rate=1.0)
    clear_data = clear_of_thresholds(key, data, module, one_step, links)
    rounds = workload._replace(
        num_rounds=workload.proof_rounds, learning_rate=workload.proof_rate
    )
    return {
        'proof': {
            'one_step': _prove_one_step(
                key, clear_data, one_step, algorithm, links, reference
            ),
            'rounds': _prove_rounds(
                key, data, rounds, algorithm, links, reference, twin
            ),
        }
    }


def _prove_one_step(
    key: jax.Array,
    data: Problem,
    workload: images.Workload,
    algorithm: images.AlgorithmOptions,
    links: Participation,
    reference: Program,
) -> dict[str, float]:
    """Proves that one local step agrees to rounding."""
    ours, expected, start = _run(key, data, workload, algorithm, links, reference)
    tolerance = rounding(start, workload)
    gap = difference(ours, expected, start)
    return _within(gap, tolerance, f'{algorithm.name}, a step')


def _prove_rounds(
    key: jax.Array,
    data: Problem,
    workload: images.Workload,
    algorithm: images.AlgorithmOptions,
    links: Participation,
    reference: Program,
    twin: Program,
) -> dict[str, float]:
    """Proves that several rounds agree about as closely as two orders of the same sums."""
    ours, expected, start = _run(key, data, workload, algorithm, links, reference)
    plan = images.schedule(key, links, workload)
    spread = difference(twin(start, data, plan, workload), expected, start)
    if not spread <= MOST_SPREAD:
        raise ValueError(
            f'{algorithm.name}: two orders of the same sums differ by {spread:.3g}.'
        )
    tolerance = max(SPREAD_FACTOR * spread, FEW_UNITS)
    gap = difference(ours, expected, start)
    proof = _within(gap, tolerance, f'{algorithm.name}, rounds')
    return {'num_rounds': workload.num_rounds, 'spread': spread, **proof}


def rounding(params: Any, workload: images.Workload) -> float:
    """Returns the tolerance for the rounding of float32 sums, if no unit turns on or off.

    A sum of n products rounds by about ``sqrt(n)`` units of ``2^-24`` of its terms, n at most the
    longest input of a layer; a step chains eight such sums, and the errors of the steps add up.
    """
    longest = max(np.prod(a.shape[:-1]) for a in jax.tree.leaves(params))
    steps = workload.num_rounds * workload.local_steps
    return float(_UNIT_ROUNDOFF * np.sqrt(longest) * _PRODUCTS_PER_STEP * steps)


def difference(actual: Any, expected: Any, start: Any) -> float:
    """Returns the largest relative difference of two results ``(model, losses)``.

    Args:
      actual: model and float[T], losses.
      expected: likewise.
      start: the model that both started from.

    Returns:
      The largest, over the arrays of the model, of the distance of the models over the distance of
      ``expected`` from ``start``; or the losses' difference over the largest of them.
    """
    model, losses = _as_float64(actual)
    expected_model, expected_losses = _as_float64(expected)
    gaps = jax.tree.map(
        lambda a, b, x: np.linalg.norm(a - b) / np.linalg.norm(b - x),
        model,
        expected_model,
        _as_float64(start),
    )
    largest_loss = np.max(np.abs(expected_losses))
    loss_gap = np.max(np.abs(losses - expected_losses)) / largest_loss
    # Unlike Python's, NumPy's maximum is NaN where any entry is.
    return float(np.max([loss_gap, *jax.tree.leaves(gaps)]))


def clear_of_thresholds(
    key: jax.Array,
    data: Problem,
    module: nn.Module,
    workload: images.Workload,
    links: Participation,
) -> Problem:
    """Returns the problem with new noise for the images of a run's first step.

    Args:
      key: the run's.
      data: the problem.
      module: its network.
      workload: its size.
      links: the pattern.

    Returns:
      The problem. At the initial model, no unit of any image that an active client takes first is
      within rounding of zero, and no two entries of a pooling window are within rounding of each
      other if they pass their ReLU.
    """
    plan = images.schedule(key, links, workload)
    rows = np.unique(plan.rows[0][plan.masks[0]])
    params = images.initial_params(key, data)
    clear = jax.jit(jax.vmap(lambda image: is_clear(module, params, image)))
    rng = np.random.default_rng(1)
    clear_images: list[np.ndarray] = []
    while len(clear_images) < len(rows):
        noise = rng.standard_normal((_CANDIDATES, *workload.image_shape), np.float32)
        clear_images.extend(noise[np.asarray(clear(noise))])
    features = np.array(data.data.features)
    features[rows] = clear_images[: len(rows)]
    return dataclasses.replace(
        data, data=data.data._replace(features=jnp.asarray(features))
    )


def is_clear(module: nn.Module, params: Any, image: jax.Array) -> jax.Array:
    """Returns whether no unit of one image is within rounding of a threshold: bool[].

    Every layer but the last counts as followed by ReLU, every convolution by pooling too. The
    margin is eight roundings of a sum as long as the layer's input.
    """
    _, captured = module.apply(
        {'params': params},
        image[None],
        capture_intermediates=True,
        mutable=['intermediates'],
    )
    layers = {
        name: value
        for name, value in captured['intermediates'].items()
        if name in params
    }
    last = max(name for name in layers if name.startswith('Dense'))
    clear = jnp.array(True)
    for name, layer in layers.items():
        if name == last:
            continue
        (outputs,) = layer['__call__']
        fan_in = np.prod(params[name]['kernel'].shape[:-1])
        size = jnp.sqrt(jnp.mean(jnp.square(outputs)))
        margin = _PRODUCTS_PER_STEP * _UNIT_ROUNDOFF * np.sqrt(fan_in) * size
        clear &= jnp.min(jnp.abs(outputs)) > margin
        if name.startswith('Conv'):
            second, first = _two_largest(outputs[0])
            clear &= jnp.all((first - second > margin) | (first <= 0))
    return clear


def _two_largest(outputs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the second largest and largest of every 2 x 2 window of [H, W, C]."""
    height = outputs.shape[0] // 2
    width = outputs.shape[1] // 2
    channels = outputs.shape[2]
    windows = outputs[: 2 * height, : 2 * width].reshape(height, 2, width, 2, channels)
    ordered = jnp.sort(windows.transpose(0, 2, 4, 1, 3).reshape(-1, 4))
    return ordered[:, -2], ordered[:, -1]


def _run(
    key: jax.Array,
    data: Problem,
    workload: images.Workload,
    algorithm: images.AlgorithmOptions,
    links: Participation,
    reference: Program,
) -> tuple[Any, Any, Any]:
    """Returns the results of the engine and the reference, and the model that both start from."""
    start = images.initial_params(key, data)
    run = jax.jit(
        lambda key, data: images.engine(key, data, workload, algorithm, links)
    )
    plan = images.schedule(key, links, workload)
    return run(key, data), reference(start, data, plan, workload), start


def _within(gap: float, tolerance: float, what: str) -> dict[str, float]:
    """Returns a difference and its tolerance; raises if it is larger."""
    if not gap <= tolerance:
        raise ValueError(
            f'{what}: results differ by {gap:.3g}, more than {tolerance:.3g}.'
        )
    return {'difference': gap, 'tolerance': tolerance}


def _as_float64(values: Any) -> Any:
    """Converts the leaves of a pytree to float64 arrays of NumPy."""
    return jax.tree.map(lambda a: np.asarray(a, np.float64), values)
