"""Runs an engine algorithm on a reference setting."""

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import local_training, participation, problems, simulation
from fedjax_links.base import DuplexLinkSample
from tests.reference.quadratic_loops import Setting


def client_program(setting: Setting, **kwargs):
    """The setting's local steps, with its rate as a schedule of the round."""
    rounds = np.arange(len(setting.mask))
    rates = jnp.asarray([setting.rate(t) for t in rounds])
    return local_training.local_sgd(
        lambda t: rates[t], local_steps=setting.local_steps, **kwargs
    )


def run(setting: Setting, algorithm, *, links=None, **simulate_kwargs):
    """Server model after every round, [T, d], and the final algorithm state; needs x64.

    Links are the setting's, or a pattern in which the same clients take part.
    """
    problem = problems.quadratic(setting.targets, initial_point=setting.start)
    links = links or participation.replay(setting.mask, setting.prob)
    simulate = jax.jit(
        lambda key, problem: simulation.simulate(
            key,
            algorithm,
            links,
            problem,
            num_rounds=len(setting.mask),
            eval_every=1,
            eval_fn=lambda params, key, problem: params,
            **simulate_kwargs,
        )
    )
    result = simulate(jax.random.key(0), problem)
    path = result.evals['server']
    assert path.dtype == np.float64
    return np.asarray(path), result


def follow(setting: Setting, algorithm, expected: np.ndarray, *, links=None):
    """Asserts that the server's path is the expected one to 1e-9; returns the result."""
    path, result = run(setting, algorithm, links=links)
    np.testing.assert_allclose(path, expected, rtol=0, atol=1e-9)
    return result


def split_links(setting: Setting, seed: int = 3):
    """Adds lost downlinks and clients that cannot compute to a setting's uplinks.

    Returns:
      The setting in which clients are active if nothing is lost, and the duplex pattern.
    """
    rng = np.random.default_rng(seed)
    num_clients = setting.mask.shape[1]
    parts = {'uplink': (setting.mask, setting.prob)}
    for name, least in (('downlink', 0.35), ('compute', 0.8)):
        prob = np.broadcast_to(np.linspace(least, 1.0, num_clients), setting.mask.shape)
        parts[name] = (rng.random(prob.shape) < prob, prob)
    patterns = {name: participation.replay(*part) for name, part in parts.items()}
    masks, probs = zip(*parts.values(), strict=True)
    combined = setting._replace(mask=np.all(masks, axis=0), prob=np.prod(probs, axis=0))
    return combined, participation.duplex(**patterns)


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


def follow_many(settings, algorithm, expected, links=None) -> list:
    """Asserts that all settings have their expected paths, to 1e-12, from one compiled program.

    Args:
      settings: they differ in targets, masks and probabilities alone.
      algorithm: the one that runs.
      expected: the server's path for each setting.
      links: for each setting, further arguments of `participation.replay`, such as edges.

    Returns:
      The final algorithm state of each.
    """
    links = links or [{} for _ in settings]

    @jax.jit
    def run(key, problem, mask, prob, other_links):
        return simulation.simulate(
            key,
            algorithm,
            participation.replay(mask, prob, **other_links),
            problem,
            num_rounds=len(mask),
            eval_every=1,
            eval_fn=lambda params, key, problem: params,
        )

    states = []
    for setting, path, other_links in zip(settings, expected, links, strict=True):
        problem = problems.quadratic(setting.targets, initial_point=setting.start)
        result = run(
            jax.random.key(0), problem, setting.mask, setting.prob, other_links
        )
        np.testing.assert_allclose(result.evals['server'], path, rtol=0, atol=1e-12)
        states.append(result.state.algorithm)
    assert run._cache_size() == 1
    return states
