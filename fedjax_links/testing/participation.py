"""Conformance of participation patterns."""

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import base, simulation
from fedjax_links.base import Array, Participation
from fedjax_links.core import prng
from fedjax_links.testing.reasons import DoesNotApply, require, saying

_NUM_ROUNDS, _PIECE = 24, 4
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


class _Drawn:
    """The links of one pattern that several checks look at; every program is compiled once."""

    def __init__(self, pattern: Participation) -> None:
        """Makes the program of one seed, ``key -> links``."""
        self.pattern = pattern
        self.links = self._program(_NUM_ROUNDS)

    def _program(self, num_rounds: int) -> Callable[[Any], Any]:
        return jax.jit(
            lambda key: simulation.realised_links(key, self.pattern, num_rounds=num_rounds)
        )

    @functools.cached_property
    def side_by_side(self) -> Any:
        """The first rounds of many seeds, leaves [S, T, ...]."""
        num_rounds = max(1, min(8, 480 // self.pattern.num_clients))
        return jax.tree.map(np.asarray, jax.vmap(self._program(num_rounds))(_seeds()))


_recent: list[_Drawn] = []


def _drawn(pattern: Participation) -> _Drawn:
    """The links of this very pattern, kept while its checks go by."""
    if not (_recent and _recent[0].pattern is pattern):
        _recent[:] = [_Drawn(pattern)]
    return _recent[0]


def _seeds() -> Array:
    return jax.random.split(jax.random.key(6), _NUM_SEEDS)


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
    require(links.mask.shape == shape, f'`mask` must be bool{list(shape)}, got {links.mask.shape}')
    require(links.mask.dtype == bool, f'`mask` must be bool, got {links.mask.dtype}')
    require(links.prob.shape == shape, f'`prob` must have shape {list(shape)}')
    require(links.prob.dtype == jnp.result_type(float), '`prob` must have the default float dtype')


def probabilities_are_probabilities(pattern: Participation, promises: Promises) -> None:
    """Reported probabilities lie in [0, 1] or are NaN; certain clients obey theirs."""
    del promises
    links = _drawn(pattern).links(jax.random.key(2))
    active, prob = np.asarray(base.participants(links)), np.asarray(links.prob)
    known = ~np.isnan(prob)
    if not known.any():
        raise DoesNotApply('the pattern reports no probabilities')
    inside = (prob[known] >= 0) & (prob[known] <= 1)
    require(inside.all(), '`prob` must lie in [0, 1] or be NaN')
    require(not active[prob == 0].any(), 'a client with probability 0 was active')
    require(active[prob == 1].all(), 'a client with probability 1 was not active')


def cohort_sizes_are_exact(pattern: Participation, promises: Promises) -> None:
    """Where the number of active clients is fixed, every round has it."""
    if promises.cohort_size is None:
        raise DoesNotApply('the number of active clients is not fixed')
    links = _drawn(pattern).links(jax.random.key(3))
    sizes = np.asarray(base.participants(links)).sum(axis=1)
    expected = promises.cohort_size
    require((sizes == expected).all(), f'cohorts must have {expected} clients, got {sizes}')


def key_and_round_decide(pattern: Participation, promises: Promises) -> None:
    """The same key gives the same links, whole and in pieces."""
    del promises
    key = jax.random.key(4)

    @jax.jit
    def piece(carry: Any, start: Any) -> tuple[Any, Any]:
        def step(carry: Any, round: Any) -> tuple[Any, Any]:
            return pattern.sample(carry, prng.round_key(key, 'participation', round), round)

        return jax.lax.scan(step, carry, start + jnp.arange(_PIECE, dtype=jnp.int32))

    carry, pieces = pattern.init(prng.pattern_key(key)), []
    for start in range(0, _NUM_ROUNDS, _PIECE):
        carry, links = piece(carry, start)
        pieces.append(links)
    pieces = jax.tree.map(lambda *a: jnp.concatenate(a), *pieces)
    with saying('the same key and rounds must give the same links, in pieces too'):
        chex.assert_trees_all_equal(pieces, _drawn(pattern).links(key))


def vmap_equals_loop(pattern: Participation, promises: Promises) -> None:
    """Seeds side by side meet the links of seeds one by one."""
    del promises
    together = _drawn(pattern).side_by_side.mask[:3]
    alone = np.stack([_drawn(pattern).links(key).mask for key in _seeds()[:3]])
    with saying('vmap must equal a loop'):
        chex.assert_trees_all_equal(together, alone[:, : together.shape[1]])


def marginals_match(pattern: Participation, promises: Promises) -> None:
    """From round 0 on, clients are active as often as the reported probability says (z-test)."""
    if not promises.prob_is_marginal:
        raise DoesNotApply('clients are active as often as `prob` says over time only')
    links = _drawn(pattern).side_by_side
    active, prob = np.asarray(base.participants(links), float), links.prob.astype(float)
    excess = (active - prob).mean(axis=0)
    variance = (prob * (1 - prob)).mean(axis=0) / _NUM_SEEDS
    known = ~np.isnan(prob).any(axis=0) & (variance > 0)
    if not known.any():
        raise DoesNotApply('no client has a known probability between 0 and 1')
    z = np.abs(excess[known]) / np.sqrt(variance[known])
    require(z.max() < _Z_BOUND, f'activity departs from `prob` by {z.max():.1f} standard errors')


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
