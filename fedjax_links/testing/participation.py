"""Conformance of participation patterns."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import base, simulation
from fedjax_links.base import Participation
from fedjax_links.testing.applicability import DoesNotApply
from fedjax_links.testing.reasons import saying

_NUM_ROUNDS = 24
_NUM_SEEDS = 2000
_Z_BOUND = 5.5  # two-sided 4e-8 per entry; below 2e-5 for 500 entries together


class Promises(NamedTuple):
    """What a pattern promises beyond the contract.

    Attributes:
      cohort_size: number of active clients of every round, where it is fixed.
      prob_is_marginal: over seeds, clients are active as often as ``prob`` says in every round.
    """

    cohort_size: int | None = None
    prob_is_marginal: bool = True


def check_participation(
    participation: Participation, *, cohort_size: int | None = None, prob_is_marginal: bool = True
) -> None:
    """Checks that a pattern keeps the promises the engine makes for it.

    Args:
      participation: the pattern.
      cohort_size: number of active clients of every round, where it is fixed.
      prob_is_marginal: whether clients are active as often as ``prob`` says in every single round,
        over seeds, and not only over time.

    Raises:
      AssertionError: naming the first broken promise.
    """
    promises = Promises(cohort_size, prob_is_marginal)
    for check in PARTICIPATION_CHECKS.values():
        with contextlib.suppress(DoesNotApply):
            check(participation, promises)


def _advance(pattern: Participation, carry: Any, key: Any, start: int, num_rounds: int):
    def step(carry, round):
        return pattern.sample(carry, jax.random.fold_in(key, round), round)

    return jax.lax.scan(step, carry, start + jnp.arange(num_rounds, dtype=jnp.int32))


def _links(pattern: Participation, num_rounds: int = _NUM_ROUNDS) -> Callable[[Any], Any]:
    """``key -> links``, to be called with as many keys as wanted."""
    return jax.jit(lambda key: simulation.realised_links(key, pattern, num_rounds=num_rounds))


def types_are_stable(pattern: Participation, promises: Promises) -> None:
    """Masks are bool[N], probabilities float[N], and the carry never changes type."""
    del promises
    key = jax.random.key(1)
    carry = pattern.init(key)

    def sample(carry: Any, key: Any, round: Any) -> tuple[Any, Any]:
        new_carry, links = pattern.sample(carry, key, round)
        return new_carry, base.LinkSample(mask=links.mask, prob=links.prob)

    new_carry, links = jax.eval_shape(sample, carry, jax.random.fold_in(key, 9), jnp.int32(0))
    with saying('a round must leave shapes, dtypes and structure of the carry as they are'):
        chex.assert_trees_all_equal_shapes_and_dtypes(new_carry, jax.tree.map(jnp.asarray, carry))
    shape = (pattern.num_clients,)
    assert links.mask.shape == shape, f'`mask` must be bool{list(shape)}, got {links.mask.shape}'
    assert links.mask.dtype == bool, f'`mask` must be bool, got {links.mask.dtype}'
    assert links.prob.shape == shape, f'`prob` must have shape {list(shape)}'
    assert links.prob.dtype == jnp.result_type(float), '`prob` must have the default float dtype'


def probabilities_are_probabilities(pattern: Participation, promises: Promises) -> None:
    """Reported probabilities lie in [0, 1] or are NaN; certain clients obey theirs."""
    del promises
    links = jax.tree.map(np.asarray, _links(pattern)(jax.random.key(2)))
    known = ~np.isnan(links.prob)
    if not known.any():
        raise DoesNotApply('the pattern reports no probabilities')
    inside = (links.prob[known] >= 0) & (links.prob[known] <= 1)
    assert inside.all(), '`prob` must lie in [0, 1] or be NaN'
    assert not links.mask[links.prob == 0].any(), 'a client with probability 0 was active'
    assert links.mask[links.prob == 1].all(), 'a client with probability 1 was not active'


def cohort_sizes_are_exact(pattern: Participation, promises: Promises) -> None:
    """Where the number of active clients is fixed, every round has it."""
    if promises.cohort_size is None:
        raise DoesNotApply('the number of active clients is not fixed')
    sizes = np.asarray(_links(pattern)(jax.random.key(3)).mask).sum(axis=1)
    expected = promises.cohort_size
    assert (sizes == expected).all(), f'cohorts must have {expected} clients, got {sizes}'


def key_and_round_decide(pattern: Participation, promises: Promises) -> None:
    """The same key gives the same links; compiled, eager, whole and in pieces."""
    del promises
    key = jax.random.key(4)
    carry = pattern.init(key)
    end, whole = _advance(pattern, carry, key, 0, 12)
    piece = jax.jit(lambda carry, start: _advance(pattern, carry, key, start, 4))
    pieces = []
    for start in (0, 4, 8):
        carry, links = piece(carry, start)
        pieces.append(links)
    pieces = jax.tree.map(lambda *a: jnp.concatenate(a), *pieces)
    with saying('the same key and rounds must give the same links, in pieces and compiled too'):
        chex.assert_trees_all_equal(pieces, whole)
        chex.assert_trees_all_equal(carry, end)


def vmap_equals_loop(pattern: Participation, promises: Promises) -> None:
    """Seeds side by side meet the links of seeds one by one."""
    del promises
    keys = jax.random.split(jax.random.key(5), 3)
    links = _links(pattern)
    together = jax.vmap(links)(keys).mask
    alone = jnp.stack([links(key).mask for key in keys])
    with saying('vmap must equal a loop'):
        chex.assert_trees_all_equal(together, alone)


def marginals_match(pattern: Participation, promises: Promises) -> None:
    """From round 0 on, clients are active as often as the reported probability says (z-test)."""
    if not promises.prob_is_marginal:
        raise DoesNotApply('clients are active as often as `prob` says over time only')
    keys = jax.random.split(jax.random.key(6), _NUM_SEEDS)
    num_rounds = max(1, min(8, 480 // pattern.num_clients))
    links = jax.vmap(_links(pattern, num_rounds))(keys)
    mask, prob = np.asarray(links.mask, float), np.asarray(links.prob, float)
    excess = (mask - prob).mean(axis=0)
    variance = (prob * (1 - prob)).mean(axis=0) / _NUM_SEEDS
    known = ~np.isnan(prob).any(axis=0) & (variance > 0)
    if not known.any():
        raise DoesNotApply('no client has a known probability between 0 and 1')
    z = np.abs(excess[known]) / np.sqrt(variance[known])
    assert z.max() < _Z_BOUND, f'activity departs from `prob` by {z.max():.1f} standard errors'


PARTICIPATION_CHECKS: Mapping[str, Callable[[Participation, Promises], None]] = {
    check.__name__: check
    for check in (
        types_are_stable,
        probabilities_are_probabilities,
        cohort_sizes_are_exact,
        key_and_round_decide,
        vmap_equals_loop,
        marginals_match,
    )
}
