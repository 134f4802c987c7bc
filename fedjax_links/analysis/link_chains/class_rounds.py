"""Writes a round of a linear algorithm as a map of sums over classes of clients.

A row is the model or memory that the algorithm keeps for a client. The clients of a class are
exchangeable, and either all are up or all are down. So a round does

``x' = alpha x + sum_c (rho_c s_c + beta_c t_c)``,
``row_i' = h_c + kappa_c row_i + zeta_c u_i`` for i in class c, with
``h_c = gamma_c x + sum_d (epsilon_cd s_d + theta_cd t_d)``,

where s_c sums the rows of class c, t_c sums the targets of class c, and u_i is the target of
client i. `layouts.LinkLayout` defines blocks, classes and configurations. A *set* holds the clients
of all blocks that the algorithm treats alike. The coefficients depend on how many clients of each
set are up. To find the coefficients, the algorithm in `linear_rounds.RULES` is applied to unit
vectors of one or two clients of each role. A role is the clients of a set that are down, or up.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedjax_links.analysis.linear_rounds import RoundMaker, Rule
from fedjax_links.analysis.link_chains.layouts import LinkLayout

# A linear function of the state that a round changes by less than this is conserved.
_CONSERVED = 1e-10


class ClassRounds(NamedTuple):
    """Holds the coefficients of a round in each configuration.

    The leading axes are those of the configurations. C is the number of classes. Each coefficient
    belongs to an old quantity in a new one.

    Attributes:
      alpha: float64[...], of the server model in the new server model.
      rho: float64[..., C], of the sums of rows in the new server model.
      beta: float64[..., C], of the sums of targets in the new server model.
      gamma: float64[..., C], of the server model in a client's new row.
      epsilon: float64[..., C, C], of the sums of rows (last axis) in a client's new row.
      kappa: float64[..., C], of a client's row in the same client's new row, beside epsilon.
      theta: float64[..., C, C], of the sums of targets (last axis) in a client's new row.
      zeta: float64[..., C], of a client's target in the same client's new row, beside theta.
    """

    alpha: np.ndarray
    rho: np.ndarray
    beta: np.ndarray
    gamma: np.ndarray
    epsilon: np.ndarray
    kappa: np.ndarray
    theta: np.ndarray
    zeta: np.ndarray


def class_rounds(
    layout: LinkLayout,
    rule: Rule,
    round_makers: Sequence[RoundMaker],
    *,
    set_of_block: np.ndarray,
    needs_probs: bool,
) -> list[ClassRounds]:
    """Computes the coefficients of a round in all configurations.

    Args:
      layout: the configurations.
      rule: a round of the algorithm.
      round_makers: one for each outcome of the links between clients; makes a round with this
        outcome. The clients are in the order of the sets, and then of the blocks.
      set_of_block: int64[B], the set of each block, labels from 0. The algorithm treats the
        clients of a set alike, so only the number of clients that are up matters.
      needs_probs: whether the algorithm uses the reported probabilities. Then each block is
        a set.

    Returns:
      The coefficients for each outcome of the links between clients.
    """
    sizes = np.bincount(set_of_block, weights=[len(block) for block in layout.blocks])
    sizes = sizes.astype(int)
    class_sets = set_of_block[layout.class_blocks]
    num_groups = len(layout.groups)
    is_up = layout.class_is_up().reshape(-1, *(1,) * num_groups, len(class_sets))
    num_up_by_block = layout.num_up()
    num_up = np.zeros((*num_up_by_block.shape[:-1], len(sizes)))
    for block, label in enumerate(set_of_block):
        num_up[..., label] += num_up_by_block[..., block]
    # The coefficients depend on the case: how many clients of each set are up and, for some
    # algorithms, their probabilities.
    cases = num_up
    if needs_probs:
        probs = layout.block_probs().reshape(len(is_up), *(1,) * num_groups, -1)
        cases = np.concatenate([num_up, np.broadcast_to(probs, num_up.shape)], axis=-1)
    distinct, case = np.unique(
        cases.reshape(-1, cases.shape[-1]), axis=0, return_inverse=True
    )
    responses = []
    for make_round in round_makers:
        for row in distinct:
            ups = row[: len(sizes)].astype(int)
            probs = row[len(sizes) :] if needs_probs else np.ones(len(sizes))
            responses.append(_response(rule, make_round, sizes, ups, probs))
    num_up_by_response = np.tile(distinct[:, : len(sizes)], (len(round_makers), 1))
    maps = _without_conserved(_stacked(responses), sizes, num_up_by_response)
    # Pick the coefficients of each class by its role: its set, and whether it is down or up.
    role = np.broadcast_to(2 * class_sets + is_up, (*layout.shape, len(class_sets)))
    case = case.reshape(layout.shape)
    first_responses = np.arange(len(round_makers)) * len(distinct)
    return [_by_class(maps, first + case, role) for first in first_responses]


def _response(
    rule: Rule,
    make_round: RoundMaker,
    sizes: np.ndarray,
    num_up: np.ndarray,
    probs: np.ndarray,
) -> ClassRounds:
    """Computes the coefficients by role: for each set, its clients that are down, or up.

    Args:
      rule: a round of the algorithm.
      make_round: makes the round's links.
      sizes: int64[G], number of clients in each set.
      num_up: int64[G], number of clients in each set that are up. These clients come first.
      probs: float64[G], the reported probabilities.

    Returns:
      The coefficients without leading axes, with 2 G roles in place of classes: down and up
      for each set in turn. Roles without clients have zeros.
    """
    num_roles = 2 * len(sizes)
    set_of_client = np.repeat(np.arange(len(sizes)), sizes)
    first_of_set = np.cumsum(sizes) - sizes
    mask = np.arange(len(set_of_client)) < (first_of_set + num_up)[set_of_client]
    first = np.stack([first_of_set + num_up, first_of_set], axis=1).ravel()
    members = np.stack([sizes - num_up, num_up], axis=1).ravel()
    present = np.flatnonzero(members)
    # Columns are the server, and a row and a target of one client of each role.
    row_columns = slice(1, 1 + num_roles)
    target_columns = slice(1 + num_roles, None)
    server = np.zeros(1 + 2 * num_roles)
    server[0] = 1.0
    rows = np.zeros((len(mask), len(server)))
    targets = np.zeros((len(mask), len(server)))
    rows[first[present], 1 + present] = 1.0
    targets[first[present], 1 + num_roles + present] = 1.0
    links = make_round(mask, probs[set_of_client], targets)
    new_server, new_rows = rule(links, server, rows)
    by_role = np.zeros((num_roles, len(server)))
    by_role[present] = new_rows[first[present]]
    # How a client acts on another client of the same role.
    by_role_on_others = np.zeros((num_roles, len(server)))
    several = np.flatnonzero(members > 1)
    by_role_on_others[several] = new_rows[first[several] + 1]
    epsilon = by_role[:, row_columns].copy()
    theta = by_role[:, target_columns].copy()
    epsilon_own = np.diagonal(by_role_on_others[:, row_columns])
    theta_own = np.diagonal(by_role_on_others[:, target_columns])
    kappa = np.diagonal(epsilon) - epsilon_own
    zeta = np.diagonal(theta) - theta_own
    np.fill_diagonal(epsilon, epsilon_own)
    np.fill_diagonal(theta, theta_own)
    return ClassRounds(
        alpha=new_server[0],
        rho=new_server[row_columns],
        beta=new_server[target_columns],
        gamma=by_role[:, 0],
        epsilon=epsilon,
        kappa=kappa,
        theta=theta,
        zeta=zeta,
    )


def _stacked(maps: list[ClassRounds]) -> ClassRounds:
    """Stacks coefficients along a new first axis."""
    return ClassRounds(*(np.stack(arrays) for arrays in zip(*maps, strict=True)))


def _without_conserved(
    maps: ClassRounds, sizes: np.ndarray, num_up: np.ndarray
) -> ClassRounds:
    """Removes what rounds conserve, such as the sum of MimiC's corrections.

    A conserved quantity is zero at the start, so it stays zero. The new maps subtract it after each
    round. This removes the eigenvalue 1 that belongs to it.

    Args:
      maps: the coefficients by case (how many clients of each set are up) and role.
      sizes: int64[G], number of clients in each set.
      num_up: float64[cases, G], number of clients in each set that are up.

    Returns:
      The maps. They give the same results for states whose conserved part is zero.
    """
    sets = np.repeat(np.arange(len(sizes)), 2)
    members = np.zeros((len(num_up), len(sets)))
    members[:, 0::2] = sizes - num_up
    members[:, 1::2] = num_up
    # A conserved functional is l_x x + sum_b l_b (sum of set b's rows). Each row of `change` is an
    # equation for its coefficients: no round changes it.
    to_set = np.eye(len(sizes))[sets]
    change = np.zeros((len(num_up), 1 + 2 * len(sets), 1 + len(sizes)))
    change[:, 0, 0] = maps.alpha - 1.0
    change[:, 0, 1:] = (members * maps.gamma) @ to_set
    present = members > 0

    def set_changes(between: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Returns by role how the sums of rows of each set change, float64[cases, 2 G, G]."""
        sums = np.einsum('kr,krs,rb->ksb', members, between, to_set)
        sums += own[:, :, None] * to_set
        return np.where(present[:, :, None], sums, 0.0)

    row_columns = slice(1, 1 + len(sets))
    target_columns = slice(1 + len(sets), None)
    change[:, row_columns, 0] = np.where(present, maps.rho, 0.0)
    change[:, row_columns, 1:] = set_changes(maps.epsilon, maps.kappa - 1.0)
    change[:, target_columns, 0] = np.where(present, maps.beta, 0.0)
    change[:, target_columns, 1:] = set_changes(maps.theta, maps.zeta)
    # Scale the coordinates so that the functional has the norm that it has over clients.
    scale = np.concatenate([[1.0], np.sqrt(sizes)])
    change = (change / scale).reshape(-1, len(scale))
    _, values, vectors = np.linalg.svd(change, full_matrices=False)
    conserved = vectors[values < _CONSERVED].T / scale[:, None]
    if not conserved.size:
        return maps
    # The projection on the conserved functionals, by server and role.
    index = np.concatenate([[0], 1 + sets])
    overlap = (conserved @ conserved.T)[np.ix_(index, index)]
    return maps._replace(
        alpha=maps.alpha - overlap[0, 0],
        rho=maps.rho - overlap[0, 1:],
        gamma=maps.gamma - overlap[1:, 0],
        epsilon=maps.epsilon - overlap[1:, 1:],
    )


def _by_class(maps: ClassRounds, case: np.ndarray, role: np.ndarray) -> ClassRounds:
    """Picks the coefficients of each configuration and class.

    Args:
      maps: the coefficients by case and role.
      case: int64[...], the case of each configuration.
      role: int64[..., C], the role of each class in each configuration.

    Returns:
      The coefficients.
    """
    cases = case[..., None]
    pairs = cases[..., None], role[..., :, None], role[..., None, :]
    return ClassRounds(
        alpha=maps.alpha[case],
        rho=maps.rho[cases, role],
        beta=maps.beta[cases, role],
        gamma=maps.gamma[cases, role],
        epsilon=maps.epsilon[pairs],
        kappa=maps.kappa[cases, role],
        theta=maps.theta[pairs],
        zeta=maps.zeta[cases, role],
    )
