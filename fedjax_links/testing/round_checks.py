"""Checks single rounds of an algorithm: whose data enter, what is counted, how keys are used."""

import re

import jax
import jax.numpy as jnp

from fedjax_links import simulation
from fedjax_links.base import Array, LinkSample, PyTree, RoundContext
from fedjax_links.testing import federation, influence
from fedjax_links.testing.federation import Runs
from fedjax_links.testing.suites import close, needs, require, uses_keys_once

_KEY_FROM_A_SEED = re.compile(r'[a-z]:key<\w+>\[\] = random_seed\[')
"""`jax.random.key` in a printed program. An unused result is named ``_`` there, and is no match."""


def clients_that_cannot_compute_stay_out(runs: Runs) -> None:
    """A client that cannot compute stays out of the round, even if its uplink is up."""
    needs(runs.traits.uses_links, 'the algorithm does not look at the links')
    needs(not runs.peers, 'this round has no links between clients')
    remedy = 'see `base.participants`, `base.delivers` and `base.computes`'
    require(
        not (runs.influence.state & runs.influence.cannot_compute).any(),
        f'data of a client that cannot compute reached the state; {remedy}',
    )
    require(
        not runs.influence.idle_uplink_matters,
        f'the uplink of a client that cannot compute must not matter; {remedy}',
    )


def counts_match_the_data_used(runs: Runs) -> None:
    """Metrics count the clients whose data enter the round, and sum the losses of these clients."""
    needs(not runs.peers, 'these rounds have no links between clients')
    found = runs.influence
    metrics = found.metrics
    require(
        found.server.sum() <= metrics.num_active <= found.state.sum(),
        '`num_active` must count the clients whose result enters the update',
    )
    require(
        found.state.sum() <= metrics.num_computing,
        '`num_computing` must count the clients that train',
    )
    first = influence.of_first_round(runs.rounds.algorithm)
    if first.metrics.num_active == len(first.losses):
        message = '`loss_sum` must be the sum of the losses of the active clients'
        close(first.metrics.loss_sum, first.losses.sum(), message)


def keys_are_used_once(runs: Runs) -> None:
    """No two draws of a round have the same key."""
    uses_keys_once(runs.algorithm.round_step, *_types_of_round(runs), runs.problem)


def keys_come_from_the_round(runs: Runs) -> None:
    """All draws follow the keys of the round, so that seeds and rounds differ."""
    state, ctx = _types_of_round(runs)

    def round_step(state: PyTree, ctx: RoundContext) -> PyTree:
        return runs.algorithm.round_step(state, ctx, runs.problem)

    traced = jax.make_jaxpr(round_step)(state, ctx)
    makes_key = _KEY_FROM_A_SEED.search(str(traced))
    require(
        not makes_key and not any(map(_is_key, traced.consts)),
        'a round must draw from `ctx.client_key` and `ctx.server_key`: with a key of its own all '
        'seeds and rounds draw the same',
    )
    require(
        not any(map(_is_key, jax.tree.leaves(state))),
        'the state must hold no key: `init` is given none, so all seeds would share it; draw from '
        '`ctx.client_key` and `ctx.server_key`',
    )


def _types_of_round(runs: Runs) -> tuple[PyTree, RoundContext]:
    """Returns the types of the initial state, and the context of a first round."""
    sample = LinkSample(
        mask=jnp.asarray(federation.masks()[0]),
        prob=jnp.full(federation.NUM_CLIENTS, 0.5),
    )
    return runs.initial_types(None), simulation.round_context(runs.key, 0, sample)


def _is_key(leaf: Array) -> bool:
    is_array = hasattr(leaf, 'dtype')
    return is_array and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
