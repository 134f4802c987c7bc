"""Runs an engine algorithm on a reference setting."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import local_training, participation, problems, simulation
from fedjax_links.base import DuplexLinkSample
from tests.reference.quadratic_loops import Setting


class _Program(NamedTuple):
    """What runs of one compiled program have in common, beside the shapes of their arrays."""

    make: Callable[..., Any]
    make_client: Callable[..., Any]
    local_steps: int
    chunk_size: int | None
    options: tuple[tuple[str, Any], ...]


def run(
    setting: Setting,
    make,
    *,
    links=None,
    problem=None,
    make_client=local_training.local_sgd,
    client=None,
    chunk_size: int | None = None,
    **options,
):
    """Server model after every round, [T, d], and the result; needs x64.

    Numbers among the options and all arrays are arguments of the compiled program, so runs of one
    factory that differ in them share it. A number that sets shapes goes into a `functools.partial`.

    Args:
      setting: data, masks and rates; the rates become a schedule of the round.
      make: the factory of the algorithm, with these options beside its client program.
      links: further arguments of `participation.replay`, such as edges.
      problem: the federation; by default the setting's quadratics.
      make_client: the factory of the client program.
      client: further arguments of it, numbers or arrays.
      chunk_size: of the client program.
      **options: those of the algorithm.
    """
    numbers = {}
    others = {}
    for name, value in options.items():
        is_number = isinstance(value, int | float | np.ndarray)
        (numbers if is_number else others)[name] = value
    program = _Program(
        make,
        make_client,
        setting.local_steps,
        chunk_size,
        tuple(sorted(others.items())),
    )
    if problem is None:
        problem = problems.quadratic(setting.targets, initial_point=setting.start)
    result = _simulate(
        program,
        jax.random.key(0),
        problem,
        np.array([setting.rate(t) for t in range(len(setting.mask))]),
        {'mask': setting.mask, 'prob': setting.prob, **(links or {})},
        client or {},
        numbers,
    )
    path = result.evals['server']
    assert path.dtype == np.float64
    return np.asarray(path), result


@functools.partial(jax.jit, static_argnums=0)
def _simulate(program: _Program, key, problem, rates, links, client, numbers):
    client_program = program.make_client(
        lambda t: rates[t],
        local_steps=program.local_steps,
        chunk_size=program.chunk_size,
        **client,
    )
    return simulation.simulate(
        key,
        program.make(client_program, **dict(program.options), **numbers),
        participation.replay(**links),
        problem,
        num_rounds=len(rates),
        eval_every=1,
        eval_fn=lambda params, key, problem: params,
    )


def follow(setting: Setting, make, expected: np.ndarray, *, atol=1e-9, **options):
    """Asserts that the server's path is the expected one; returns the result.

    Args:
      setting: as in `run`.
      make: as in `run`.
      expected: the server model after every round, [T, d].
      atol: the largest difference.
      **options: as in `run`.
    """
    path, result = run(setting, make, **options)
    np.testing.assert_allclose(path, expected, rtol=0, atol=atol)
    return result


def follow_many(settings, make, expected, *, links=None, **options) -> list:
    """Asserts that all settings have their expected paths, to 1e-12, from one compiled program.

    Args:
      settings: they differ in targets, masks and probabilities alone.
      make: as in `run`.
      expected: the server's path for each setting.
      links: for each setting, those of `run`.
      **options: as in `run`.

    Returns:
      The final algorithm state of each.
    """
    links = links or [None for _ in settings]
    num_programs = _simulate._cache_size()
    states = []
    for setting, path, others in zip(settings, expected, links, strict=True):
        result = follow(setting, make, path, atol=1e-12, links=others, **options)
        states.append(result.state.algorithm)
    assert _simulate._cache_size() <= num_programs + 1
    return states


def split_links(setting: Setting, seed: int = 3):
    """Adds lost downlinks and clients that cannot compute to a setting's uplinks.

    Returns:
      The setting in which clients are active if nothing is lost, and what `replay` takes.
    """
    rng = np.random.default_rng(seed)
    num_clients = setting.mask.shape[1]
    parts = {'mask': (setting.mask, setting.prob)}
    for name, least in (('downlink', 0.35), ('compute', 0.8)):
        prob = np.broadcast_to(np.linspace(least, 1.0, num_clients), setting.mask.shape)
        parts[name] = (rng.random(prob.shape) < prob, prob)
    masks, probs = zip(*parts.values(), strict=True)
    combined = setting._replace(mask=np.all(masks, axis=0), prob=np.prod(probs, axis=0))
    return combined, dict(zip(parts, masks, strict=True))


def assert_caught(expected: np.ndarray, wrong: np.ndarray) -> None:
    """Asserts that a wrong variant leaves the expected path by far more than the tolerance."""
    assert np.abs(wrong - expected).max() > 1e-4


def round_with_partial_links():
    """Returns the context of a round in which client 0 of four has all of its links.

    Client 1 lacks the downlink, client 2 the uplink, and client 3 cannot compute.
    """
    links = DuplexLinkSample(
        mask=jnp.array([True, True, False, True]),
        prob=jnp.full(4, 0.5),
        downlink=jnp.array([True, False, True, True]),
        compute=jnp.array([True, True, True, False]),
    )
    return simulation.round_context(jax.random.key(0), 0, links)
