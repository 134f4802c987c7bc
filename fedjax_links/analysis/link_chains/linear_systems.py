"""Puts together an algorithm, its losses and a link chain: a jump linear system."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks, linear_rules, peer_links
from fedjax_links.analysis.linear_rounds import (
    KEEP_MODELS,
    KEEP_NOTHING,
    RULES,
    Round,
    Rule,
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

    Attributes:
      layout: the configurations of the links.
      maps: how moments move.
      targets: by block.
      optimum: float64[d].
      models: functionals float64[n] of v by model.
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
    curvature: ArrayLike,
    noise: float,
    neighbours: ArrayLike | None,
    edge_probs: ArrayLike,
    lump: bool | None,
    options: Mapping[str, Any],
    is_centred: bool = False,
    rule: Rule | None = None,
) -> LinearSystem:
    """Checks the arguments and builds the maps of the moments.

    Arguments are as in `linear_curve`. Where `is_centred`, targets and models are measured
    from the optimum. So differences from it keep their digits. A `rule` replaces the round
    of the algorithm.
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
    has_rows = algorithm not in KEEP_NOTHING
    layout = layouts.layout_of(
        chain,
        clients.curvature,
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
        learning_rate,
        options,
        neighbours=neighbours,
        edge_probs=edge_probs,
        needs_probs=algorithm in _NEED_PROBS,
    )
    _check_moves(algorithm, branches)
    by_block = _targets_by_block(layout, clients)
    maps = moment_maps.moment_maps(layout, branches, by_block, has_rows=has_rows)
    models = {'server': np.eye(maps.second.left.size)[1]}
    if algorithm in KEEP_MODELS:
        models['client_mean'] = maps.client_mean
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
        if rounds.beta.any() or rounds.theta.any() or rounds.zeta.any():
            return
    raise errors.invalid('algorithm', 'move its models under some links', algorithm)


def _sets_of_blocks(
    clients: linear_rules.QuadraticClients, layout: layouts.LinkLayout
) -> np.ndarray:
    """Labels blocks with equal curvature if any number of their clients may be up.

    Where links restrict who is up together, rounds may conserve what depends on blocks.

    Args:
      clients: the losses.
      layout: the configurations.

    Returns:
      int64[B].
    """
    curvature = [clients.curvature[block[0]] for block in layout.blocks]
    sizes = np.array([len(block) for block in layout.blocks])
    cases = np.unique(layout.num_up().reshape(-1, len(sizes)), axis=0)
    if len(cases) < np.prod(sizes + 1.0):
        return np.arange(len(sizes))
    return np.unique(curvature, return_inverse=True)[1]


def _branches(
    clients: linear_rules.QuadraticClients,
    layout: layouts.LinkLayout,
    set_of_block: np.ndarray,
    rule: Rule,
    learning_rate: float,
    options: Mapping[str, Any],
    *,
    neighbours: ArrayLike | None,
    edge_probs: ArrayLike,
    needs_probs: bool,
) -> list[tuple[float, class_rounds.ClassRounds]]:
    """Enumerates the links between clients: their probability, and the round under them."""
    size = len(clients.targets)
    by_set = np.argsort(set_of_block, kind='stable')
    order = np.concatenate([layout.blocks[block] for block in by_set])
    probs = []
    round_makers = []
    # Uplinks that are always up, so that only the links between clients are enumerated.
    uplinks = np.ones(size if neighbours is not None else 1)
    for prob, _, edges in linear_rules.all_links(uplinks, neighbours, edge_probs):
        if neighbours is None:
            edges = np.zeros((size, size), bool)
        probs.append(prob)
        round_makers.append(_round_maker(clients, order, edges, learning_rate, options))
    rounds = class_rounds.class_rounds(
        layout, rule, round_makers, set_of_block=set_of_block, needs_probs=needs_probs
    )
    return list(zip(probs, rounds, strict=True))


def _round_maker(
    clients: linear_rules.QuadraticClients,
    order: np.ndarray,
    edges: np.ndarray,
    learning_rate: float,
    options: Mapping[str, Any],
) -> class_rounds.RoundMaker:
    """Returns what makes a round with some edges, of clients in some order."""
    mixing = peer_links.metropolis_matrix(edges)
    with_diagonal = edges | np.eye(len(edges), dtype=bool)

    def make_round(mask: np.ndarray, probs: np.ndarray, targets: np.ndarray) -> Round:
        return Round(
            active=mask,
            mixing=mixing,
            edges=with_diagonal,
            probs=probs,
            keep=clients.keep[order],
            targets=targets,
            rate=learning_rate,
            steps=clients.steps,
            curvature=clients.curvature[order, None],
            options=options,
        )

    return make_round


def _targets_by_block(
    layout: layouts.LinkLayout, clients: linear_rules.QuadraticClients
) -> moment_maps.Targets:
    """Computes the means of the blocks' targets, their scatter and their noise."""
    means = [clients.targets[block].mean(axis=0) for block in layout.blocks]
    noise = [clients.target_noise[block[0]] for block in layout.blocks]
    scatter = []
    for members in layout.members:
        points = clients.targets[members]
        offsets = points - points.mean(axis=0)
        # Equal targets have no offsets, not even those of rounding.
        if not np.ptp(points, axis=0).any():
            offsets = np.zeros_like(offsets)
        scatter.append(offsets.T @ offsets)
    return moment_maps.Targets(np.array(means), tuple(scatter), np.array(noise))
