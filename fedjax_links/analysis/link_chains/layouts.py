"""Chooses which clients are counted and which are listed, and lays out the configurations.

Clients are exchangeable if they follow one law of links, have equal curvature, and the algorithm
treats all clients in the same way. Of a group of exchangeable clients only the number in each state
is kept: the group is counted. All other clients are listed one by one. A configuration says in
which state the listed clients are, and how many clients of each group are in each state.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np

from fedjax_links.analysis.link_chains import counting
from fedjax_links.analysis.link_chains.chains import (
    ClientLinks,
    LinkChain,
    LinkModes,
    joint_modes,
)
from fedjax_links.core import errors

MAX_ENTRIES = 20_000_000  # 160 MB for each array of moments.

# A law of configurations that changes by less than this in a transition is stationary.
_STATIONARY_TOLERANCE = 1e-10


class LinkLayout(NamedTuple):
    """Holds the configurations of links, of shape [S, K_1, ..., K_G].

    The S modes are the joint states of the listed clients and of the shared chain
    (`chains.LinkChain`). K_g is the number of ways in which the clients of group g can be spread
    over their states. A *block* is a listed client or a group. Listed clients come first. A *class*
    is a listed client, or the clients of a group in one state.

    Attributes:
      chain: the link chain.
      modes: the modes of the listed clients.
      listed: int64[n], the listed clients.
      groups: the configurations and transitions of each group.
      members: int64[n_g] for each group, its clients.
    """

    chain: LinkChain
    modes: LinkModes
    listed: np.ndarray
    groups: tuple[counting.CountedGroup, ...]
    members: tuple[np.ndarray, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Returns the shape of the configurations."""
        return len(self.modes.start), *(len(group.counts) for group in self.groups)

    @property
    def blocks(self) -> list[np.ndarray]:
        """Returns the clients of each block."""
        return [np.array([client]) for client in self.listed] + list(self.members)

    @property
    def class_blocks(self) -> np.ndarray:
        """Returns the block of each class, int64[C]."""
        num_listed = len(self.listed)
        blocks = [np.arange(num_listed)]
        for group_index, group in enumerate(self.groups):
            blocks.append(np.full(group.num_states, num_listed + group_index))
        return np.concatenate(blocks)

    @property
    def class_slices(self) -> list[slice]:
        """Returns the classes of each group."""
        sizes = [group.num_states for group in self.groups]
        bounds = len(self.listed) + np.cumsum([0, *sizes])
        return [slice(*pair) for pair in itertools.pairwise(bounds)]

    @property
    def kinds(self) -> list[ClientLinks]:
        """Returns the law of the links of each group."""
        return [self.chain.kind(members[0]) for members in self.members]

    def class_is_up(self) -> np.ndarray:
        """Returns whether the clients of each class are up, bool[S, C]."""
        columns = [self.modes.masks]
        columns += [kind.is_up[self.modes.shared_state] for kind in self.kinds]
        return np.concatenate(columns, axis=1)

    def class_counts(self) -> np.ndarray:
        """Returns how many clients each class has, int64[S, K_1, ..., K_G, C]."""
        columns = [np.ones((*self.shape, len(self.listed)), np.int64)]
        for group_index, group in enumerate(self.groups):
            shape = [1] * len(self.shape) + [group.num_states]
            shape[1 + group_index] = len(group.counts)
            counts = group.counts.reshape(shape)
            columns.append(np.broadcast_to(counts, (*self.shape, group.num_states)))
        return np.concatenate(columns, axis=-1)

    def num_up(self) -> np.ndarray:
        """Returns how many clients of each block are up, int64[S, K_1, ..., K_G, B]."""
        is_up = self.class_is_up()
        is_up = is_up.reshape(len(is_up), *len(self.groups) * (1,), -1)
        up_by_class = self.class_counts() * is_up
        firsts = np.unique(self.class_blocks, return_index=True)[1]
        return np.add.reduceat(up_by_class, firsts, axis=-1)

    def block_probs(self) -> np.ndarray:
        """Returns the reported probability of each block's clients, float64[S, B]."""
        columns = [self.modes.probs]
        columns += [kind.prob[self.modes.shared_state, None] for kind in self.kinds]
        return np.concatenate(columns, axis=1)

    def start_law(self) -> np.ndarray:
        """Computes the law of the configurations in the first round, float64[S, K_1, ..., K_G]."""
        return self._joint_law(self.modes.start, [kind.start for kind in self.kinds])

    def _joint_law(
        self, mode_law: np.ndarray, client_laws: list[np.ndarray]
    ) -> np.ndarray:
        """Computes the law of configurations of clients that are independent given the mode.

        Args:
          mode_law: float64[S].
          client_laws: float64[E, m] by group, the law of a client's state given the shared state.

        Returns:
          float64[S, K_1, ..., K_G].
        """
        law = mode_law
        for group_index, members in enumerate(self.members):
            law_of_client = client_laws[group_index][self.modes.shared_state]
            counts = counting.counts_law(len(members), law_of_client)
            shape = [len(mode_law)] + [1] * group_index + [-1]
            law = law[..., None] * counts.reshape(shape)
        return law

    def _stationary_states(self, kind: ClientLinks) -> np.ndarray:
        """Computes the long-run law of a client's state given the shared state, float64[E, m]."""
        single = self.chain._replace(kinds=(kind,), kind_of_client=np.zeros(1, int))
        size = kind.start.shape[1]
        joint = joint_modes(single, np.zeros(1, int))
        law = np.zeros((len(self.chain.start), size))
        np.add.at(
            law, (joint.shared_state, joint.client_states[:, 0]), joint.stationary
        )
        total = law.sum(axis=1, keepdims=True)
        return np.divide(law, total, out=np.zeros_like(law), where=total > 0)

    def stationary_law(self) -> np.ndarray:
        """Computes the fraction of the rounds in each configuration in the long run.

        Returns:
          float64[S, K_1, ..., K_G].

        Raises:
          ValueError: if clients of a group are not independent given the mode in the long run.
        """
        client_laws = [self._stationary_states(kind) for kind in self.kinds]
        law = self._joint_law(self.modes.stationary, client_laws)
        after = self.move_modes(law)
        for group_index, group in enumerate(self.groups):
            after = group.move_law(after, 1 + group_index)
        if np.abs(after - law).max() > _STATIONARY_TOLERANCE:
            requirement = (
                'have clients that are independent given the shared state, or be used '
                'with `lump=False`'
            )
            raise errors.invalid('chain', requirement, 'clients that are not')
        return law

    def move_modes(self, moments: np.ndarray) -> np.ndarray:
        """Applies a round's transition of the modes to moments, float64[S, ...]."""
        if len(moments) == 1:
            return moments
        flat = moments.reshape(len(moments), -1)
        return (self.modes.transition.T @ flat).reshape(moments.shape)


def layout_of(
    chain: LinkChain,
    groups: list[np.ndarray],
    *,
    lump: bool | None,
    has_rows: bool,
    has_offsets: bool,
    num_pairs: int,
) -> LinkLayout:
    """Chooses which clients are counted and which are listed.

    Args:
      chain: the link chain.
      groups: the clients of each group, from `exchangeable_groups`.
      lump: whether the groups are counted; None chooses what needs fewer moments.
      has_rows: whether the algorithm has a row, a model or memory, for each client.
      has_offsets: whether targets differ within groups.
      num_pairs: number of pairs of the models' coordinates.

    Returns:
      The layout.

    Raises:
      ValueError: if the moments of this layout have more than `MAX_ENTRIES` entries.
    """
    num_groups = len(groups)
    listed_entries = num_pairs * _num_entries(chain, [], has_rows, has_offsets)
    counted_entries = num_pairs * _num_entries(chain, groups, has_rows, has_offsets)
    if lump is None:
        lump = counted_entries < listed_entries
    entries = counted_entries
    if not lump:
        groups = []
        entries = listed_entries
    if entries > MAX_ENTRIES:
        requirement = f'need at most {MAX_ENTRIES:,} numbers in all for its moments'
        got = (
            f'{entries:,.0f} for {chain.num_clients} clients in {num_groups} groups '
            'of exchangeable ones'
        )
        if num_pairs > 1:
            got += f', and {num_pairs:,} squares and products of coordinates'
        raise errors.invalid('chain', requirement, got)
    listed = _listed_clients(chain, groups)
    modes = joint_modes(chain, listed)
    counted_groups = []
    for members in groups:
        kind = chain.kind(members[0])
        transitions, move_of_state = np.unique(
            kind.transition, axis=0, return_inverse=True
        )
        move_of_mode = move_of_state.ravel()[modes.shared_state]
        counted_groups.append(
            counting.counted_group(len(members), transitions, move_of_mode)
        )
    return LinkLayout(chain, modes, listed, tuple(counted_groups), tuple(groups))


def num_moments(
    chain: LinkChain, groups: list[np.ndarray], *, has_rows: bool, has_offsets: bool
) -> float:
    """Bounds the number of products in `moments.Moments` for one pair of the models' coordinates.

    This number decides how long the theory takes. Arguments are as in `layout_of`.
    """
    listed_entries = _num_entries(chain, [], has_rows, has_offsets)
    counted_entries = _num_entries(chain, groups, has_rows, has_offsets)
    return min(listed_entries, counted_entries)


def _listed_clients(chain: LinkChain, groups: list[np.ndarray]) -> np.ndarray:
    """Returns the clients outside of the groups."""
    counted = np.concatenate([*groups, np.zeros(0, int)])
    return np.setdiff1d(np.arange(chain.num_clients), counted)


def exchangeable_groups(chain: LinkChain, curvature: np.ndarray) -> list[np.ndarray]:
    """Lists the groups of two or more exchangeable clients."""
    labels = np.column_stack([chain.kind_of_client, curvature])
    _, group_of_client = np.unique(labels, axis=0, return_inverse=True)
    group_of_client = group_of_client.ravel()
    groups = [
        np.flatnonzero(group_of_client == group)
        for group in range(group_of_client.max() + 1)
    ]
    # A client that is never up is listed: its row never changes.
    return [
        members
        for members in groups
        if len(members) > 1 and chain.kind(members[0]).is_up.any()
    ]


def _num_entries(
    chain: LinkChain, groups: list[np.ndarray], has_rows: bool, has_offsets: bool
) -> float:
    """Bounds the number of products in `moments.Moments` for one pair of the models' coordinates.

    Args:
      chain: the link chain.
      groups: the clients of each counted group; all other clients are listed.
      has_rows: as in `layout_of`.
      has_offsets: as in `layout_of`.

    Returns:
      The bound; infinity if a group has more than ``counting.MAX_COUNTS`` configurations.
    """
    listed = _listed_clients(chain, groups)
    num_configurations = float(len(chain.start))
    num_classes = 0
    for members in groups:
        num_states = chain.kind(members[0]).start.shape[1]
        num_counts = math.comb(len(members) + num_states - 1, num_states - 1)
        if num_counts > counting.MAX_COUNTS:
            return np.inf
        num_configurations *= num_counts
        num_classes += num_states
    for client in listed:
        num_configurations *= chain.kind(client).start.shape[1]
    # The size of the vector v of the module `moments`.
    size = 2  # The constant 1, and the server model.
    if has_rows:
        size += len(listed) + num_classes
    if has_offsets:
        size += num_classes
    return num_configurations * size**2
