"""Checks that participation patterns keep the promises on which the engine relies."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links import base, simulation
from fedjax_links.base import Array, Key, Links, MaskLinks, Participation, PyTree
from fedjax_links.core import checks, contracts, errors, prng
from fedjax_links.links import drawing
from fedjax_links.participation.replay import replay
from fedjax_links.testing.suites import (
    DoesNotApply,
    Suite,
    identical,
    needs,
    require,
    same_types,
    uses_keys_once,
)

_NUM_ROUNDS = 24
_PIECE = 4  # Rounds.
_NUM_SEEDS = 2000
_Z_BOUND = 5.5  # False alarms: 4e-8 per entry, below 2e-5 for `_MAX_ENTRIES`.
_MAX_ENTRIES = 480  # Exceeded only by more clients.

PARTICIPATION_CHECKS = Suite()


class Promises(NamedTuple):
    """Describes what a pattern promises beyond the contract.

    Attributes:
      cohort_size: number of active clients of every round; None if it is not fixed.
      prob_is_marginal: whether over seeds, clients are active as often as ``prob`` says in every
        round.
    """

    cohort_size: int | None = None
    prob_is_marginal: bool = True


def check_participation(
    participation: Participation,
    *,
    cohort_size: int | None = None,
    prob_is_marginal: bool = True,
) -> None:
    """Checks that a pattern keeps the promises that the engine makes in its name.

    Args:
      participation: the pattern.
      cohort_size: number of active clients of every round; None if it is not fixed.
      prob_is_marginal: whether over seeds, clients are active as often as ``prob`` says in every
        single round. Otherwise only over time.

    Raises:
      AssertionError: naming the first broken promise.
      ValueError: if ``participation`` is no pattern, ``cohort_size`` is no integer of at least 0,
        or a flag is neither True nor False.
    """
    contracts.check_pattern(participation)
    checks.flags(prob_is_marginal=prob_is_marginal)
    if cohort_size is not None:
        checks.static_int('cohort_size', cohort_size, minimum=0)
    PARTICIPATION_CHECKS.check(participation, Promises(cohort_size, prob_is_marginal))


class _Draws(NamedTuple):
    """Holds links as the pattern gives them, and as masks."""

    links: Links
    masks: MaskLinks


@functools.lru_cache(maxsize=2)  # For the checks of one pattern.
def _program(
    pattern: Participation, num_rounds: int = _NUM_ROUNDS
) -> Callable[[Key], _Draws]:
    """Compiles the links of one seed, ``key -> draws``."""

    def draw(key: Key) -> _Draws:
        links = simulation.realised_links(key, pattern, num_rounds=num_rounds)
        return _Draws(links, base.as_masks(links))

    return jax.jit(draw)


def _draw(pattern: Participation, seed: int) -> _Draws:
    """Draws the links of one seed, as NumPy arrays."""
    draws: _Draws = jax.tree.map(np.asarray, _program(pattern)(jax.random.key(seed)))
    return draws


@functools.lru_cache(maxsize=1)
def _side_by_side(pattern: Participation) -> MaskLinks:
    """Samples the first rounds of many seeds, leaves [S, T, ...]."""
    program = _program(pattern, max(1, min(8, _MAX_ENTRIES // pattern.num_clients)))
    links: MaskLinks = jax.tree.map(np.asarray, jax.vmap(program)(_seeds()).masks)
    return links


def _seeds() -> Array:
    return jax.random.split(jax.random.key(6), _NUM_SEEDS)


@PARTICIPATION_CHECKS.listed
def types_are_stable(pattern: Participation, promises: Promises) -> None:
    """Masks are bool[N], probabilities float[N], and the carry never changes type."""
    key = jax.random.key(1)
    carry = jax.eval_shape(pattern.init, key)

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, Links]:
        new_carry, links = pattern.sample(carry, key, round)
        return new_carry, base.LinkSample(mask=links.mask, prob=links.prob)

    new_carry, links = jax.eval_shape(
        sample, carry, jax.random.fold_in(key, 9), jnp.int32(0)
    )
    message = 'a round must leave shapes, dtypes and structure of the carry as they are'
    same_types(new_carry, carry, message)
    clients = jnp.zeros(pattern.num_clients)
    message = (
        '`mask` must be bool[N], and `prob` have this shape and the default float dtype'
    )
    same_types(links, base.LinkSample(mask=clients > 0, prob=clients), message)


@PARTICIPATION_CHECKS.listed
def keys_are_used_once(pattern: Participation, promises: Promises) -> None:
    """No two draws of a round, or of the first carry, have the same key."""
    key = jax.random.key(1)
    uses_keys_once(pattern.init, key)
    carry = jax.eval_shape(pattern.init, key)
    uses_keys_once(pattern.sample, carry, key, jnp.int32(0))


@PARTICIPATION_CHECKS.listed
def probabilities_are_probabilities(pattern: Participation, promises: Promises) -> None:
    """Probabilities lie in [0, 1] or are NaN; clients with probability 0 or 1 obey it."""
    links = _draw(pattern, 2).masks
    active = base.participants(links)
    prob = links.prob
    known = prob[~np.isnan(prob)]
    needs(known.size > 0, 'the pattern reports no probabilities')
    is_inside = (known >= 0) & (known <= 1)
    require(is_inside.all(), '`prob` must lie in [0, 1] or be NaN')
    require(not active[prob == 0].any(), 'a client with probability 0 was active')
    require(active[prob == 1].all(), 'a client with probability 1 was not active')


@PARTICIPATION_CHECKS.listed
def cohort_sizes_are_exact(pattern: Participation, promises: Promises) -> None:
    """If the number of active clients is fixed, every round has this number."""
    needs(promises.cohort_size is not None, 'the number of active clients is not fixed')
    sizes = np.asarray(base.participants(_draw(pattern, 3).masks)).sum(axis=1)
    expected = promises.cohort_size
    message = f'cohorts must have {expected} clients, got {sizes}'
    require((sizes == expected).all(), message)


@PARTICIPATION_CHECKS.listed
def key_and_round_decide(pattern: Participation, promises: Promises) -> None:
    """The same key gives the same links, at once and in pieces."""
    key = jax.random.key(4)
    piece = jax.jit(lambda carry, rounds: drawing.draw(carry, key, pattern, rounds))
    carry = jax.jit(pattern.init)(prng.pattern_key(key))
    pieces: Any = []
    for rounds in np.arange(_NUM_ROUNDS, dtype=np.int32).reshape(-1, _PIECE):
        carry, links = piece(carry, rounds)
        pieces.append(links)
    pieces = jax.tree.map(lambda *a: np.concatenate(a), *pieces)
    message = 'the same key and rounds must give the same links, in pieces too'
    identical(pieces, _draw(pattern, 4).links, message)


@PARTICIPATION_CHECKS.listed
def vmap_equals_loop(pattern: Participation, promises: Promises) -> None:
    """Seeds side by side have the same links as seeds one by one."""
    together = _side_by_side(pattern).mask[:3]
    alone = np.stack([_program(pattern)(key).masks.mask for key in _seeds()[:3]])
    identical(together, alone[:, : together.shape[1]], 'vmap must equal a loop')


@PARTICIPATION_CHECKS.listed
def marginals_match(pattern: Participation, promises: Promises) -> None:
    """From round 0 on, clients are active as often as the reported probability says (z-test)."""
    over_time = 'clients are active as often as `prob` says over time only'
    needs(promises.prob_is_marginal, over_time)
    links = _side_by_side(pattern)
    active = np.asarray(base.participants(links), float)
    z = _z_scores(active, np.asarray(links.prob))
    needs(z.size, 'no client has a known probability between 0 and 1')
    message = f'activity departs from `prob` by {z.max():.1f} standard errors'
    require(z.max() < _Z_BOUND, message)


@PARTICIPATION_CHECKS.listed
def edges_join_two_clients(pattern: Participation, promises: Promises) -> None:
    """Edges belong to one graph, agree at both ends, and are up as often as reported (z-test)."""
    links = _draw(pattern, 5).masks
    many = _side_by_side(pattern)
    if not (base.has_peers(links) and base.has_peers(many)):
        raise DoesNotApply('there are no links between clients')
    graph = links.neighbours[0]
    message = '`neighbours` must be the same in all rounds'
    require((links.neighbours == graph).all(), message)
    try:
        replay(links.mask, links.prob, neighbours=graph, edges=links.edges)
    except errors.InvalidError as refused:
        raise AssertionError(str(refused)) from None
    if many.edge_prob is None or not promises.prob_is_marginal:
        raise DoesNotApply('edges have no probabilities of a round')
    is_up = np.asarray(many.edges, float)
    own = np.arange(pattern.num_clients)[:, None]
    prob = np.where(graph == own, np.nan, _of_edges(many.edge_prob, is_up.shape))
    z = _z_scores(is_up, prob)
    message = f'edges depart from `edge_prob` by {z.max(initial=0):.1f} standard errors'
    require(z.max(initial=0) < _Z_BOUND, message)


def _of_edges(edge_prob: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """Broadcasts one probability for each round, or one for each edge of a round."""
    probs = np.asarray(edge_prob)
    if probs.ndim == 2:
        probs = probs[..., None, None]
    return np.broadcast_to(probs, shape)


def _z_scores(occurs: np.ndarray, prob: np.ndarray) -> np.ndarray:
    """Compares frequencies over seeds with probabilities, where these are known.

    Args:
      occurs: float[S, ...], 1 for what occurred and 0 for what did not.
      prob: float[S, ...], the probability of the entry; NaN if unknown.

    Returns:
      Absolute differences in standard errors, one for each entry with a probability between 0 and
      1.
    """
    prob = prob.astype(float)
    excess = (occurs - prob).mean(axis=0)
    variance = (prob * (1 - prob)).mean(axis=0) / len(prob)
    is_known = ~np.isnan(prob).any(axis=0) & (variance > 0)
    return np.abs(excess[is_known]) / np.sqrt(variance[is_known])
