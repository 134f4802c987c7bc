"""Puts together an algorithm, its losses and a link chain: a jump linear system.

In a jump linear system the round is a linear map, which depends on the state of a Markov chain.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks, linear_rules
from fedjax_links.analysis.linear_rounds import (
    KEEP_MODELS,
    KEEP_NOTHING,
    RULES,
    QuadraticClients,
    Rule,
    round_maker,
)
from fedjax_links.analysis.link_chains import class_rounds, layouts, moment_maps
from fedjax_links.analysis.link_chains.chains import LinkChain, check_chain
from fedjax_links.core import errors

_NEED_PROBS = 'fedavg_known', 'fedstale'
"""Algorithms that divide by the probability of a client."""

_DISTINGUISH_CLIENTS = 'cogc', 'colrel'
"""Algorithms under which no two clients are exchangeable."""


class LinearSystem(NamedTuple):
    """Holds an algorithm on quadratics under a link chain.

    The system's state is the vector v of `moment_maps`: the number 1, the server model, and sums of
    rows and of target offsets. A row is the model or memory that the algorithm keeps for a client.

    Attributes:
      layout: the configurations of the links.
      maps: the maps of the moments of v in a round.
      targets: the clients' minimisers, by block of the layout.
      optimum: float64[d], the minimiser of the mean loss.
      models: float64[n] for each model, by name; the product of this vector with v is the model.
    """

    layout: layouts.LinkLayout
    maps: moment_maps.MomentMaps
    targets: moment_maps.Targets
    optimum: np.ndarray
    models: Mapping[str, np.ndarray]


def linear_system(
    algorithm: str,
    chain: LinkChain,
    targets: ArrayLike,
    learning_rate: float,
    local_steps: int,
    *,
    options: Mapping[str, Any],
    curvature: ArrayLike = 1.0,
    noise: float = 0.0,
    neighbours: ArrayLike | None = None,
    edge_probs: ArrayLike = 0.0,
    lump: bool | None = None,
    is_centred: bool = False,
    rule: Rule | None = None,
) -> LinearSystem:
    """Checks the arguments and builds the maps of the moments.

    Arguments are as in `linear_curve`. With ``is_centred``, targets and models are measured from
    the optimum, so that their small differences from the optimum keep their digits. A ``rule``
    replaces the round of the algorithm.
    """
    linear_rules.check_name('algorithm', algorithm)
    check_chain(chain)
    if lump is not None:
        _checks.checked_flag('lump', lump)
    size = chain.num_clients
    options = linear_rules.checked_options(algorithm, options, size)
    clients = linear_rules.quadratic_clients(
        algorithm, targets, size, learning_rate, local_steps, curvature, noise
    )
    if is_centred:
        clients = clients._replace(targets=clients.targets - clients.optimum)
    _check_probs(algorithm, chain)
    distinguishes = algorithm in _DISTINGUISH_CLIENTS or neighbours is not None
    if distinguishes:
        lump = False
    dimension = clients.targets.shape[1]
    groups = layouts.exchangeable_groups(chain, clients.curvature)
    # Without rows the state is smaller: the algorithm keeps nothing for a client.
    has_rows = algorithm not in KEEP_NOTHING
    layout = layouts.layout_of(
        chain,
        groups,
        lump=lump,
        has_rows=has_rows,
        has_offsets=any(np.ptp(clients.targets[g], axis=0).any() for g in groups),
        num_pairs=dimension * (dimension + 1) // 2,
    )
    set_of_block = np.arange(len(layout.blocks))
    if not distinguishes and algorithm not in _NEED_PROBS:
        set_of_block = _sets_of_blocks(clients, layout)
    branches = _branches(
        clients,
        layout,
        set_of_block,
        rule or RULES[algorithm],
        options,
        neighbours=neighbours,
        edge_probs=edge_probs,
        needs_probs=algorithm in _NEED_PROBS,
    )
    _check_moves(algorithm, branches)
    by_block = _targets_by_block(layout, clients)
    maps = moment_maps.moment_maps(layout, branches, by_block, has_rows=has_rows)
    server = np.zeros(maps.second.left.size)
    server[1] = 1.0  # v begins with the number 1 and the server model.
    models = {'server': server}
    if algorithm in KEEP_MODELS:
        client_mean = np.zeros_like(server)
        rows = maps.second_part.rows[1:]  # The part begins with the server.
        client_mean[rows] = 1.0 / size
        models['client_mean'] = client_mean
    return LinearSystem(layout, maps, by_block, clients.optimum, models)


def _check_probs(algorithm: str, chain: LinkChain) -> None:
    """Refuses a chain without the probabilities that an algorithm needs."""
    if algorithm in _NEED_PROBS and any(np.isnan(k.prob).any() for k in chain.kinds):
        requirement = f'know probabilities, which {algorithm} needs'
        raise errors.invalid('chain', requirement, 'NaN')


def _check_moves(
    algorithm: str, branches: list[tuple[float, class_rounds.ClassRounds]]
) -> None:
    """Refuses an algorithm whose models no round changes."""
    for _, rounds in branches:
        # The coefficients of targets, in the server model and in rows.
        if rounds.beta.any() or rounds.theta.any() or rounds.zeta.any():
            return
    raise errors.invalid('algorithm', 'move its models under some links', algorithm)


def _sets_of_blocks(
    clients: QuadraticClients, layout: layouts.LinkLayout
) -> np.ndarray:
    """Chooses which blocks `class_rounds` puts into one set.

    A set holds the blocks of one curvature. For a set, only the number of active clients matters.
    This is valid if the blocks' numbers of active clients take all combinations. Otherwise rounds
    may conserve a quantity that tells blocks apart. Then each block is a set.

    Args:
      clients: the losses.
      layout: the configurations.

    Returns:
      int64[B], the set of each block.
    """
    sizes = np.array([len(block) for block in layout.blocks])
    combinations = np.unique(layout.num_up().reshape(-1, len(sizes)), axis=0)
    # A block of n clients has from 0 to n active clients.
    if len(combinations) < np.prod(sizes + 1.0):
        return np.arange(len(sizes))
    curvature = [clients.curvature[block[0]] for block in layout.blocks]
    return np.unique(curvature, return_inverse=True)[1]


def _branches(
    clients: QuadraticClients,
    layout: layouts.LinkLayout,
    set_of_block: np.ndarray,
    rule: Rule,
    options: Mapping[str, Any],
    *,
    neighbours: ArrayLike | None,
    edge_probs: ArrayLike,
    needs_probs: bool,
) -> list[tuple[float, class_rounds.ClassRounds]]:
    """Lists the outcomes of links between clients: a probability and a round's coefficients each.

    The outcomes say which of these links are up.
    """
    size = len(clients.targets)
    by_set = np.argsort(set_of_block, kind='stable')
    order = np.concatenate([layout.blocks[block] for block in by_set])
    ordered_clients = clients._replace(
        keep=clients.keep[order], curvature=clients.curvature[order]
    )
    probs = []
    round_makers = []
    for prob, edges in linear_rules.all_edges(size, neighbours, edge_probs):
        probs.append(prob)
        round_makers.append(round_maker(ordered_clients, edges, options))
    rounds = class_rounds.class_rounds(
        layout, rule, round_makers, set_of_block=set_of_block, needs_probs=needs_probs
    )
    return list(zip(probs, rounds, strict=True))


def _targets_by_block(
    layout: layouts.LinkLayout, clients: QuadraticClients
) -> moment_maps.Targets:
    """Computes mean, scatter and noise of the targets in each block."""
    means = [clients.targets[block].mean(axis=0) for block in layout.blocks]
    noise = [clients.target_noise[block[0]] for block in layout.blocks]
    scatter = []
    for members in layout.members:
        points = clients.targets[members]
        offsets = points - points.mean(axis=0)
        # Equal targets have offsets of exactly zero, without rounding errors.
        if not np.ptp(points, axis=0).any():
            offsets = np.zeros_like(offsets)
        scatter.append(offsets.T @ offsets)
    return moment_maps.Targets(np.array(means), tuple(scatter), np.array(noise))
