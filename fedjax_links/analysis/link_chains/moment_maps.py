"""Builds the maps of moments of a linear algorithm under a link chain.

As in `moments`, moments are ``E[v w^T]`` by configuration of the links. v holds one coordinate a of
the models, w holds one coordinate b. Both stack, in this order,

``(1, server, sums of rows by class, sums of target offsets by class)``.

A row is the model or memory that the algorithm keeps for a client. A target offset is a client's
target minus the mean of its group. An algorithm without rows has no rows in v. If all targets of a
group are equal, v has no offsets. Listed clients have no offsets. `layouts.LinkLayout` defines
configurations, blocks, classes and groups. `class_rounds.ClassRounds` defines coefficients such as
alpha and kappa.
"""

from typing import NamedTuple

import numpy as np

from fedjax_links.analysis.link_chains.class_rounds import ClassRounds
from fedjax_links.analysis.link_chains.layouts import LinkLayout
from fedjax_links.analysis.link_chains.moments import (
    Coordinates,
    MomentBlock,
    MomentMap,
    Moments,
    RoundMaps,
    SideMaps,
)


class MomentMaps(NamedTuple):
    """Holds the maps of an algorithm's moments.

    Models have d coordinates. Second moments are kept for pairs (a, b) of coordinates with a <= b.
    First moments are moments with w = 1. Their arrays have an axis of the d coordinates in place of
    the axis of pairs.

    Attributes:
      mean: maps ``E[v]``.
      second: maps ``E[v w^T]``.
      mean_part: the moments of `mean` of server and rows.
      cross_part: the moments of `second` of server and rows in v with offsets in w; empty without
        offsets.
      second_part: the moments of `second` of server and rows in v with server and rows in w.
      pairs: int64[pairs, 2], coordinates (a, b) of the models.
    """

    mean: MomentMap
    second: MomentMap
    mean_part: MomentBlock
    cross_part: MomentBlock
    second_part: MomentBlock
    pairs: np.ndarray


class Targets(NamedTuple):
    """Holds the clients' minimisers by block.

    Attributes:
      means: float64[blocks, d], mean of each block's targets.
      scatter: float64[d, d] for each group, the sum over its clients of ``o o^T`` for the
        client's target offset o.
      noise: float64[blocks], variance of the noise that local steps add to a target.
    """

    means: np.ndarray
    scatter: tuple[np.ndarray, ...]
    noise: np.ndarray

    @property
    def has_offsets(self) -> bool:
        """Returns whether targets differ within a group."""
        return any(scatter.any() for scatter in self.scatter)


class _Indices(NamedTuple):
    """Holds where rows and offsets begin in v, or -1 without them, and the size of v."""

    rows: int
    offsets: int
    size: int


def moment_maps(
    layout: LinkLayout,
    branches: list[tuple[float, ClassRounds]],
    targets: Targets,
    *,
    has_rows: bool,
) -> MomentMaps:
    """Builds the maps of first and second moments.

    Args:
      layout: the configurations.
      branches: rounds of the algorithm with their probabilities.
      targets: the clients' minimisers.
      has_rows: whether the algorithm has a row for each client.

    Returns:
      The maps.
    """
    num_classes = len(layout.class_blocks)
    after_rows = 2 + (num_classes if has_rows else 0)
    indices = _Indices(2 if has_rows else -1, -1, after_rows)
    if targets.has_offsets:
        size = after_rows + num_classes - len(layout.listed)
        indices = indices._replace(offsets=after_rows, size=size)
    dimension = targets.means.shape[1]
    pairs = np.array([(a, b) for a in range(dimension) for b in range(a, dimension)])
    all_coordinates = _coordinates(layout, indices)
    # For first moments, w is the number one. It involves no client of any group.
    constant = _coordinates(layout, _Indices(-1, -1, 1))
    constant_maps = SideMaps(np.ones((1, 1, 1)), (), ())
    second = []
    mean = []
    for prob, rounds in branches:
        maps = _round_maps(layout, rounds, targets, indices)
        second.append((prob, _paired(maps, pairs)))
        mean.append((prob, maps._replace(right=constant_maps, noise=None)))
    models = np.arange(1, after_rows)
    offsets = np.arange(after_rows, indices.size)
    row_fields = slice(0, int(has_rows))
    offset_fields = slice(int(has_rows), None)
    return MomentMaps(
        mean=MomentMap(layout, all_coordinates, constant, tuple(mean), has_rows),
        second=MomentMap(
            layout, all_coordinates, all_coordinates, tuple(second), has_rows
        ),
        mean_part=MomentBlock(models, np.zeros(1, int), row_fields),
        cross_part=MomentBlock(models, offsets, row_fields, offset_fields),
        second_part=MomentBlock(models, models, row_fields, row_fields),
        pairs=pairs,
    )


def _coordinates(layout: LinkLayout, indices: _Indices) -> Coordinates:
    """Says which entries of v belong to which group."""
    # Rows begin with the rows of listed clients, who have no offsets.
    firsts = []
    if indices.rows >= 0:
        firsts.append(indices.rows)
    if indices.offsets >= 0:
        firsts.append(indices.offsets - len(layout.listed))
    fields = []
    for part in layout.class_slices:
        classes = np.arange(part.start, part.stop)
        fields.append(np.add.outer(firsts, classes).astype(int))
    return Coordinates(indices.size, tuple(fields))


def _round_maps(
    layout: LinkLayout, rounds: ClassRounds, targets: Targets, indices: _Indices
) -> RoundMaps:
    """Builds the maps of v, with an axis of the d coordinates of models in place of pairs.

    The module `class_rounds` defines the coefficients and h. The sum of a class's targets is the
    number of its clients times the mean target of the block, plus the sum of the target offsets.
    """
    shape = layout.shape
    blocks = layout.class_blocks
    counts = layout.class_counts().astype(np.float64)
    num_listed = len(layout.listed)
    num_classes = len(blocks)
    means = targets.means[blocks]
    dimension = means.shape[1]
    size = indices.size
    target_sums = counts[..., None] * means
    common = np.zeros((*shape, dimension, num_classes, size))
    left = np.zeros((*shape, dimension, size, size))
    # The constant one.
    left[..., 0, 0] = 1.0
    # Server: x' = alpha x + sum_c (rho_c s_c + beta_c t_c).
    left[..., 1, 0] = np.einsum('...c,...cd->...d', rounds.beta, target_sums)
    left[..., 1, 1] = rounds.alpha[..., None]
    if indices.offsets >= 0:
        offsets = np.arange(indices.offsets, size)
        left[..., 1, offsets] = rounds.beta[..., None, num_listed:]
        # Offsets stay as they are.
        left[..., offsets, offsets] = 1.0
    if indices.rows >= 0:
        rows = indices.rows + np.arange(num_classes)
        # h_c = gamma_c x + sum_d (epsilon_cd s_d + theta_cd t_d), plus zeta_c times a mean target.
        constant = np.einsum('...ce,...ed->...dc', rounds.theta, target_sums)
        constant += np.swapaxes(rounds.zeta[..., None] * means, -1, -2)
        common[..., 0] = constant
        common[..., 1] = rounds.gamma[..., None, :]
        common[..., rows] = rounds.epsilon[..., None, :, :]
        left[..., 1, rows] = rounds.rho[..., None, :]
        if indices.offsets >= 0:
            common[..., offsets] = rounds.theta[..., None, :, num_listed:]
        # Sums of rows: s_c' = n_c h_c + kappa_c s_c + zeta_c t_c.
        left[..., rows, :] = counts[..., None, :, None] * common
        left[..., rows, rows] += rounds.kappa[..., None, :]
        if indices.offsets >= 0:
            group_rows = rows[num_listed:]
            left[..., group_rows, offsets] += rounds.zeta[..., None, num_listed:]
    noise, square_noise = _noise(rounds, counts, targets.noise[blocks], indices)
    common_of_groups = []
    own_of_groups = []
    counts_of_groups = []
    noise_of_groups = []
    for part in layout.class_slices:
        common_of_groups.append(common[..., part, :])
        own_of_groups.append(_own(rounds, part, indices)[..., None, :, :, :])
        counts_of_groups.append(counts[..., None, part])
        noise_of_groups.append(square_noise[..., None, part])
    side = SideMaps(left, tuple(common_of_groups), tuple(own_of_groups))
    return RoundMaps(
        left=side,
        right=side,
        counts=tuple(counts_of_groups),
        noise=noise[..., None, :, :] if noise.any() else None,
        noise_squares=tuple(noise_of_groups),
    )


def _own(rounds: ClassRounds, part: slice, indices: _Indices) -> np.ndarray:
    """Builds the map of a client's row and offset, float64[..., states, f, f]."""
    kappa = rounds.kappa[..., part]
    fields = int(indices.rows >= 0) + int(indices.offsets >= 0)
    own = np.zeros((*kappa.shape, fields, fields))
    if indices.offsets >= 0:
        own[..., -1, -1] = 1.0
    if indices.rows >= 0:
        own[..., 0, 0] = kappa
    if fields == 2:
        own[..., 0, 1] = rounds.zeta[..., part]
    return own


def _noise(
    rounds: ClassRounds, counts: np.ndarray, variance: np.ndarray, indices: _Indices
) -> tuple[np.ndarray, np.ndarray]:
    """Computes what the noise of targets adds to second moments.

    Args:
      rounds: the coefficients.
      counts: float64[..., C], number of clients in each class.
      variance: float64[C], variance of the noise of one target.
      indices: where rows and offsets begin in v.

    Returns:
      float64[..., n, n] to add to products, and float64[..., C] to add to the squares of rows.
    """
    num_classes = counts.shape[-1]
    response = np.zeros((*counts.shape[:-1], indices.size, num_classes))
    response[..., 1, :] = rounds.beta
    sum_variance = counts * variance
    if indices.rows >= 0:
        rows = indices.rows + np.arange(num_classes)
        response[..., rows, :] = counts[..., None] * rounds.theta
        response[..., rows, np.arange(num_classes)] += rounds.zeta
    products = (response * sum_variance[..., None, :]) @ np.swapaxes(response, -1, -2)
    # The noise in a row is sum_d theta_cd t_d + zeta_c u_i. Sum its variance over i in class c.
    theta_own = np.diagonal(rounds.theta, axis1=-2, axis2=-1)
    squares = counts * np.einsum('...cd,...d->...c', rounds.theta**2, sum_variance)
    squares += (2.0 * rounds.zeta * theta_own + rounds.zeta**2) * sum_variance
    return products, squares


def _paired(maps: RoundMaps, pairs: np.ndarray) -> RoundMaps:
    """Picks the maps for the given pairs of the models' coordinates."""
    first, second = pairs.T
    is_one = (first == second).astype(np.float64)
    noise = None
    if maps.noise is not None:
        noise = maps.noise * is_one[:, None, None]
    return maps._replace(
        left=maps.left.of_pairs(first),
        right=maps.right.of_pairs(second),
        noise=noise,
        noise_squares=tuple(x * is_one[:, None] for x in maps.noise_squares),
    )


def start_moments(
    maps: MomentMaps, targets: Targets, law: np.ndarray
) -> tuple[Moments, Moments]:
    """Returns the first and second moments if all models and rows are zero.

    Args:
      maps: the maps.
      targets: the clients' minimisers.
      law: float64[S, K_1, ...], law of the configurations.

    Returns:
      The moments ``E[v]``, and ``E[v w^T]``.
    """
    layout = maps.second.layout
    coordinates = maps.second.left
    dimension = targets.means.shape[1]
    first = np.zeros((*law.shape, dimension, coordinates.size, 1))
    first[..., 0, 0] = law[..., None]
    second = np.zeros((*law.shape, len(maps.pairs), coordinates.size, coordinates.size))
    second[..., 0, 0] = law[..., None]
    counts = layout.class_counts()
    squares = []
    fields = int(maps.second.has_rows) + int(targets.has_offsets)
    for group_index, group in enumerate(layout.groups):
        part = layout.class_slices[group_index]
        group_squares = np.zeros(
            (*law.shape, len(maps.pairs), group.num_states, fields, fields)
        )
        if targets.has_offsets:
            size = len(layout.members[group_index])
            scatter = targets.scatter[group_index][maps.pairs[:, 0], maps.pairs[:, 1]]
            # Offsets sum to zero, so the mean product of two clients' offsets is negative.
            mean_square = scatter / size
            mean_product = -scatter / (size * (size - 1))
            # Mean numbers of clients by state, and of pairs of different clients by their states.
            clients = counts[..., part] * law[..., None]
            client_pairs = clients[..., :, None] * counts[..., None, part]
            client_pairs = client_pairs - clients[..., None] * np.eye(group.num_states)
            group_squares[..., -1, -1] = clients[..., None, :] * mean_square[:, None]
            products = client_pairs[..., None, :, :] * mean_product[:, None, None]
            states = np.arange(group.num_states)
            products[..., states, states] += group_squares[..., -1, -1]
            offsets = coordinates.fields[group_index][-1]
            second[..., offsets[:, None], offsets] = products
        if fields:
            squares.append(group_squares)
    return Moments(first, ()), Moments(second, tuple(squares))
