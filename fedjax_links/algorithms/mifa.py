"""MIFA: the server remembers every client's last update and averages all of them.

References:
  Gu et al. 2021, Fast federated learning in the presence of arbitrary device unavailability.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.algorithms.common import MemoryState
from fedjax_links.base import Algorithm, Array, Number, Params, Problem, PyTree, RoundContext, Step
from fedjax_links.core import checks, tree
from fedjax_links.core.references import cite
from fedjax_links.local_training import ClientProgram, Contribution, Train


class WaitingState(NamedTuple):
    """State of MIFA that waits for everybody.

    Attributes:
      memory: server model, rows and their sum.
      seen: bool[N], clients heard at least once.
      num_steps: int32[], rounds in which the server moved.
    """

    memory: MemoryState
    seen: Array
    num_steps: Array


@cite('gu2021fast')
def mifa(
    local_train: ClientProgram,
    *,
    server_lr: Number = 1.0,
    memory: str = 'delta',
    table_dtype: DTypeLike | None = None,
) -> Algorithm:
    """MIFA: ``G_i <- Delta_i`` for i in A, then ``x^{t+1} = x^t + (eta_g / N) sum_{all i} G_i``.

    Overwrite, then use; rows start at zero. With ``memory='gradient'`` a row is Delta_i divided by
    the local rate of its round, and the server applies all rows with the current one:
    ``x + eta_g eta_t mean(G)``. The two agree only while eta_t is constant: a remembered Delta_i
    is applied with the rate of the round that it stems from.

    Link semantics: only clients whose uplink delivers compute, upload and receive; all of them
    start from x^t. Everybody's row moves the server in every round, so that **an empty round moves
    x as well**.

    Memory: 2 + N models: x, the rows and their running sum (its drift: `MemoryState`). With
    ``table_dtype=jnp.bfloat16`` the rows take half the space; they are rounded when stored, and
    the sum is that of the rounded rows.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive.
      memory: what a row holds, ``'delta'`` or ``'gradient'``.
      table_dtype: dtype of the rows; the parameters' own by default.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a rate that is not positive, an unknown ``memory`` or a dtype that is not
        floating-point.

    References:
      Gu et al. 2021, Algorithm 1, without its first round of full participation: 'gradient' is the
      authors' form, 'delta' the one Xiang et al. 2024 compare with.
    """
    overwrite, move = _rule(local_train, server_lr, memory)

    def round_step(state: MemoryState, ctx: RoundContext, problem: Problem) -> Step[MemoryState]:
        filled, metrics = overwrite(state, ctx, problem)
        return move(filled, ctx, problem), metrics

    return common.with_memory(round_step, table_dtype)


@cite('gu2021fast')
def mifa_waiting(
    local_train: ClientProgram,
    *,
    server_lr: Number = 1.0,
    memory: str = 'delta',
    table_dtype: DTypeLike | None = None,
) -> Algorithm:
    """MIFA that stands still until it has heard from every client once.

    Until then x stays at x^0 while active clients fill their rows from it; the first step follows
    in the round after the last client's first contact. From there on it is `mifa`. The local rate
    follows the number of steps made so far and not the round, so waiting does not use it up.

    With ``memory='gradient'`` this is the trainer that MIFA's authors run by default, but for one
    difference: there nobody trains while waiting, and in the last waiting round all clients fill
    their rows, available or not. With full batches the trajectories are equal, because x does not
    move meanwhile; with minibatches the rows hold batches of other rounds. A client that never
    delivers stops it for good. A row that is not finite may be replaced before x first moves: the
    sum is then taken anew from all rows, in rounds that cost O(N) as long as there is such a row.

    Link semantics: as for `mifa`; an empty round moves x once everybody has been heard.

    Memory: 2 + N models and one flag per client.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive.
      memory: what a row holds, ``'delta'`` or ``'gradient'``.
      table_dtype: dtype of the rows; the parameters' own by default.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: as for `mifa`.

    References:
      Gu et al. 2021; github.com/hmgxr128/MIFA_code at c1099d9, src/trainers/fdu.py:33-63.
    """
    overwrite, move = _rule(local_train, server_lr, memory)
    common.check_table_dtype(table_dtype)

    def init(params: Params, problem: Problem) -> WaitingState:
        return WaitingState(
            memory=common.empty_memory(params, problem, table_dtype),
            seen=jnp.zeros(problem.num_clients, bool),
            num_steps=jnp.zeros((), jnp.int32),
        )

    def round_step(state: WaitingState, ctx: RoundContext, problem: Problem) -> Step[WaitingState]:
        ctx = ctx._replace(round=state.num_steps)  # the clock of the local rate
        filled, metrics = overwrite(state.memory, ctx, problem)
        filled = _mended(filled, problem)
        ready = jnp.all(state.seen)
        server = tree.select(ready, move(filled, ctx, problem).server, filled.server)
        new_state = WaitingState(
            memory=filled._replace(server=server),
            seen=state.seen | base.participants(ctx.links),
            num_steps=state.num_steps + ready,
        )
        return new_state, metrics

    return Algorithm(init, round_step, models=lambda state: common.server_model(state.memory))


def _rule(
    local_train: ClientProgram, server_lr: Number, memory: str
) -> tuple[common.RoundStep, Callable[[MemoryState, RoundContext, Problem], MemoryState]]:
    """What replaces the members' rows by their new updates, and what moves the server by all."""
    checks.positive('server_lr', server_lr)
    checks.choice('memory', memory, ('delta', 'gradient'))

    def rate_of(ctx: RoundContext) -> Array | int:
        return local_train.learning_rate(ctx.round) if memory == 'gradient' else 1

    def overwrite(state: MemoryState, ctx: RoundContext, problem: Problem) -> Step[MemoryState]:
        rate = rate_of(ctx)

        def client(train: Train, i: Array, row: PyTree) -> tuple[Contribution, PyTree]:
            update = train(state.server)
            return Contribution((), update.loss), tree.scale(1 / rate, update.delta)

        return common.remember(local_train, ctx, problem, client, state)[1:]

    def move(state: MemoryState, ctx: RoundContext, problem: Problem) -> MemoryState:
        scale = server_lr * rate_of(ctx) / problem.num_clients
        return state._replace(server=tree.add_scaled(state.server, scale, state.memory_sum))

    return overwrite, move


def _mended(state: MemoryState, problem: Problem) -> MemoryState:
    """With a sum taken from all rows where it is not finite and the server model still is."""
    is_lost = ~tree.all_finite(state.memory_sum) & tree.all_finite(state.server)

    def take_anew(_: Array, memory_sum: Params) -> Params:
        return tree.scale(problem.num_clients, tree.client_mean(state.memory, like=memory_sum))

    once = is_lost.astype(jnp.int32)
    return state._replace(memory_sum=jax.lax.fori_loop(0, once, take_anew, state.memory_sum))
