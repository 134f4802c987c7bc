"""Computes the fraction of rounds that a Markov chain spends in each state in the long run.

Some states are transient: a run leaves them for good. The other states recur.
"""

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse import linalg as sparse_linalg

from fedjax_links.analysis import _checks

_MAX_STATES_SOLVED = 2_000  # by a linear system, whose time grows fast
_MAX_STEPS = 10_000  # If a chain needs more steps, a linear system is solved.
_ROUNDING = 1e-6  # more than this is no rounding error of a law


def closed_classes(transition: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Finds the classes of states that no run leaves.

    A chain has one stationary law for each closed class. All its other stationary laws are mixtures
    of these.

    Args:
      transition: sparse float64[S, S], row-stochastic, without stored zeros.

    Returns:
      int64[S], the class of each state: states of a class can reach each other. And int64[...],
      the closed classes, which no run leaves; at least one, in increasing order.
    """
    _, label = csgraph.connected_components(transition, connection='strong')
    sources, targets = transition.nonzero()
    is_exit = label[sources] != label[targets]
    return label, np.setdiff1d(label, label[sources[is_exit]])


def long_run_law(
    transition: sparse.csr_array, start: np.ndarray, *, argument: str = 'transition'
) -> np.ndarray:
    """Computes the long-run fraction of rounds in each state.

    The fraction is zero for transient states. A chain of many states is followed until its law
    stands still. Otherwise a first linear system gives the mean number of visits to each transient
    state, and so the probability of each closed class. A second system gives the law within each
    class, relative to the class's first state. The balance equation of the first state is left out,
    as it follows from the others. The law is then scaled to the probability of the class. No
    equation sums over a class: a full row would fill the factors of a sparse system.

    Args:
      transition: sparse float64[S, S], row-stochastic.
      start: float64[S], law of the first state.
      argument: the name, for errors, of the argument from which the chain was made.

    Returns:
      float64[S].

    Raises:
      ValueError: if rounding errors leave no law.
    """
    size = transition.shape[0]
    label, classes = closed_classes(transition)
    recurs = np.isin(label, classes)
    # Recurring states keep a positive probability, however small.
    least = np.finfo(np.float64).tiny
    if size > _MAX_STATES_SOLVED:
        law = _limit_of_steps(transition, start)
        if law is not None:
            return np.where(recurs, np.maximum(law, least), 0.0)
    flow = transition.T.tocsr()
    balance = (sparse.eye_array(size) - flow).tocsr()
    transient = np.flatnonzero(~recurs)
    visits = np.zeros(size)
    visits[transient] = _solve(balance[transient][:, transient], start[transient])
    # Compute where runs enter the closed classes, and the probability of each class.
    entries = np.where(recurs, start + flow @ visits, 0.0)
    class_masses = np.bincount(label, entries)
    # Compute the law of each class relative to the class's first state.
    _, firsts = np.unique(label, return_index=True)
    firsts = firsts[classes]
    others = np.setdiff1d(np.flatnonzero(recurs), firsts)
    law = np.zeros(size)
    law[firsts] = 1.0
    law[others] = _solve(balance[others][:, others], (flow @ law)[others])
    class_sums = np.bincount(label, law)
    scales = np.divide(
        class_masses, class_sums, out=np.zeros_like(class_sums), where=class_sums > 0
    )
    law *= scales[label]
    total = law.sum()
    is_law = law.min() > -_ROUNDING and abs(total - 1.0) < _ROUNDING
    requirement = 'have probabilities that float64 can tell apart in the long run'
    got = f'probabilities of at least {law.min():.2g}, {total:.6g} in all'
    _checks.require(is_law, argument, requirement, got)
    return np.where(recurs, np.maximum(law, least), 0.0)


def _solve(system: sparse.csr_array, right: np.ndarray) -> np.ndarray:
    """Solves a sparse linear system, also one without unknowns."""
    if not right.size:
        return right
    return np.atleast_1d(sparse_linalg.spsolve(system.tocsc(), right))


def _limit_of_steps(
    transition: sparse.csr_array, start: np.ndarray
) -> np.ndarray | None:
    """Computes the long-run law by following the law of the state until it stands still.

    The run is slowed: it stays where it is with probability 1/2. It then has the same long-run law,
    but no period. When a step changes the law by rounding errors alone, the law is as accurate as a
    linear system's solution in float64.

    Args:
      transition: sparse float64[S, S], row-stochastic.
      start: float64[S], law of the first state.

    Returns:
      float64[S]; None if the law still changes after `_MAX_STEPS` steps.
    """
    flow = transition.T.tocsr()
    law = start
    for _ in range(_MAX_STEPS):
        next_law = (law + flow @ law) / 2
        next_law /= next_law.sum()
        change = np.abs(next_law - law).sum()
        law = next_law
        if change <= 2 * np.finfo(np.float64).eps:
            return law
    return None
