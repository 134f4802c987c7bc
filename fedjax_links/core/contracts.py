"""Checks types and shapes in users' algorithms, patterns and problems, while these are traced.

No check reads a traced value, so nothing of a check is left in a compiled program.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import base
from fedjax_links.base import Array, Params, PyTree
from fedjax_links.core import checks, client_names, errors, meshes, tree

SAMPLES = (
    base.LinkSample,
    base.DuplexLinkSample,
    base.PeerLinkSample,
    base.CohortLinkSample,
)
_KINDS = {'bool': np.bool_, 'float': np.floating, 'int': np.integer}
_KIND_OF_FIELD = {
    'mask': 'bool',
    'prob': 'float',
    'downlink': 'bool',
    'compute': 'bool',
    'duration': 'float',
}
_NEEDED_FIELDS = ('mask', 'prob')


def check_algorithm(algorithm: Any) -> None:
    """Raises unless ``algorithm`` has the functions of an algorithm, with their arguments."""
    parts = 'init', 'round_step', 'models'
    if not all(hasattr(algorithm, part) for part in parts):
        requirement = (
            "be an algorithm, as `fl.ALGORITHMS['fedavg'](client_program)` makes one"
        )
        raise errors.invalid('algorithm', requirement, kind_of(algorithm))
    step = algorithm.round_step
    checks.function('algorithm.init', algorithm.init, 'params', 'problem')
    checks.function('algorithm.round_step', step, 'state', 'context', 'problem')
    checks.function('algorithm.models', algorithm.models, 'state')


def check_parts(algorithm: object, participation: Any, problem: Any) -> None:
    """Raises unless the arguments are an algorithm, a pattern or a sample of links, and a problem.

    A pattern must have the clients of the problem.
    """
    check_algorithm(algorithm)
    check_problem(problem)
    if not isinstance(participation, SAMPLES):
        check_pattern(participation)
        check_clients(participation, problem)


def check_problem(problem: object) -> None:
    """Raises unless ``problem`` has clients and parameters."""
    if not (hasattr(problem, 'num_clients') and hasattr(problem, 'init_params')):
        requirement = 'be a problem, as those of `fl.problems` make one'
        raise errors.invalid('problem', requirement, kind_of(problem))


def check_pattern(participation: Any, argument: str = 'participation') -> None:
    """Raises unless ``participation`` is a pattern."""
    if not isinstance(participation, base.Participation):
        form = 'be a pattern, as `participation.bernoulli(probs)` makes one'
        requirement = f'{form}, or `participation.replay(mask)` of a mask'
        raise errors.invalid(argument, requirement, kind_of(participation))
    checks.function(f'{argument}.init', participation.init, 'key')
    arguments = 'carry', 'key', 'round'
    checks.function(f'{argument}.sample', participation.sample, *arguments)


def check_clients(pattern: base.Participation, problem: base.Problem) -> None:
    """Raises unless a pattern has the clients of the problem, in their order."""
    _check_num_clients(pattern.num_clients, problem)
    names = pattern.client_names or ()
    client_names.check_order('participation', names, problem.client_names)


def check_rounds(
    links: object,
    problem: base.Problem,
    *,
    num_rounds: int | None = None,
    argument: str = 'links',
) -> None:
    """Raises unless ``links`` hold the links of the problem's clients, round by round.

    Args:
      links: leaves [T, ...].
      problem: the problem.
      num_rounds: T; None for any number.
      argument: what to name in an error.
    """
    all_rounds = 'be links of all rounds, as `realised_links` gives them'
    if not isinstance(links, SAMPLES):
        raise errors.invalid(argument, all_rounds, kind_of(links))
    mask_of_links: Any = jax.eval_shape(lambda links: links.mask, links)
    shape: tuple[int, ...] = getattr(mask_of_links, 'shape', ())
    if len(shape) != 2:
        raise errors.invalid(argument, all_rounds, f'a mask of shape {list(shape)}')
    length, num_clients = shape
    if length == 0:
        raise errors.invalid(argument, 'have at least one round of links', 0)
    if num_rounds not in (None, length):
        requirement = f'have {num_rounds} rounds of links'
        raise errors.invalid(argument, requirement, length)
    check_links(links, num_clients, length, argument=argument)
    _check_num_clients(num_clients, problem, argument)


def _check_num_clients(
    num_clients: int, problem: base.Problem, argument: str = 'participation'
) -> None:
    if num_clients != problem.num_clients:
        requirement = f"have the problem's {problem.num_clients} clients"
        raise errors.invalid(argument, requirement, num_clients)


def check_evaluations(eval_fn: object, eval_every: int | None, num_rounds: int) -> None:
    """Raises unless ``eval_fn`` is a function or None, and ``eval_every`` divides the rounds."""
    checks.evaluation(eval_fn)
    if eval_every is None:
        return
    checks.static_int('eval_every', eval_every)
    if num_rounds % eval_every == 0:
        return
    largest = min(eval_every - 1, num_rounds)
    nearest = next(d for d in range(largest, 0, -1) if num_rounds % d == 0)
    requirement = f'divide `num_rounds` = {num_rounds}'
    value = f'{eval_every}; the nearest smaller divisor is {nearest}'
    raise errors.invalid('eval_every', requirement, value)


def check_links(
    links: object, num_clients: int, *lead: int, argument: str = 'participation'
) -> None:
    """Raises unless ``links`` have the type and shapes of a sample of N clients.

    Args:
      links: the sample; leaves are arrays or shapes.
      num_clients: N.
      *lead: lengths of the leading axes of the sample's leaves, such as rounds.
      argument: the argument that drew the sample, for errors.
    """
    if not isinstance(links, SAMPLES):
        raise errors.invalid(argument, 'draw a LinkSample', kind_of(links))
    if isinstance(links, base.CohortLinkSample):
        if links.num_clients != num_clients:
            requirement = f'draw links of its {num_clients} clients'
            raise errors.invalid(argument, requirement, links.num_clients)
        _check_cohort_links(argument, links, lead)
        return
    per_client = (*lead, num_clients)
    for name, kind in _KIND_OF_FIELD.items():
        value = getattr(links, name, None)
        if value is not None or name in _NEEDED_FIELDS:
            shape = lead if name == 'duration' else per_client
            _check_field(argument, name, value, kind, shape)
    if isinstance(links, base.PeerLinkSample):
        _check_peer_links(argument, links, lead, num_clients)


def _check_cohort_links(
    argument: str, links: base.CohortLinkSample, lead: tuple[int, ...]
) -> None:
    """Raises unless ``ids`` are [..., B], ``chance`` [..., K] and kinds of clients below K."""
    num_clients = links.num_clients
    num_slots = _last_axis(links.ids)
    _check_field(argument, 'ids', links.ids, 'int', (*lead, num_slots))
    num_kinds = _last_axis(links.chance)
    if links.kinds is None and num_kinds not in (1, num_clients):
        requirement = f'draw `chance` of 1 or {num_clients} kinds of clients'
        raise errors.invalid(argument, requirement, num_kinds)
    _check_field(argument, 'chance', links.chance, 'float', (*lead, num_kinds))
    if links.kinds is None:
        return
    kinds = links.kinds.by_client
    if len(kinds) != num_clients or kinds.min() < 0 or kinds.max() >= num_kinds:
        requirement = (
            f'draw `kinds` of {num_clients} clients, from 0 to {num_kinds - 1}'
        )
        raise errors.invalid(argument, requirement, errors.text_of(kinds.tolist()))


def _check_peer_links(
    argument: str, links: base.PeerLinkSample, lead: tuple[int, ...], num_clients: int
) -> None:
    """Raises unless neighbours and edges are [..., N, K], and ``edge_prob`` the same or [...]."""
    shape = (*lead, num_clients, _last_axis(links.neighbours))
    _check_field(argument, 'neighbours', links.neighbours, 'int', shape)
    _check_field(argument, 'edges', links.edges, 'bool', shape)
    if links.edge_prob is not None and np.shape(links.edge_prob) != lead:
        _check_field(argument, 'edge_prob', links.edge_prob, 'float', shape)


def _last_axis(array: Array) -> int:
    """Returns the length of the last axis; 0 for a scalar."""
    return (np.shape(array) or (0,))[-1]


def _check_field(
    argument: str, name: str, value: Array | None, kind: str, shape: tuple[int, ...]
) -> None:
    """Raises unless a field of a sample holds numbers of a kind and has a shape."""
    fits = (
        value is not None
        and jnp.issubdtype(_dtype(value), _KINDS[kind])
        and np.shape(value) == shape
    )
    if not fits:
        requirement = f'draw `{name}` as {kind}{list(shape)}'
        raise errors.invalid(argument, requirement, kind_of(value))


def check_same_structure(
    argument: str, requirement: str, expected: PyTree, got: PyTree
) -> None:
    """Raises for the first leaf whose kind or shape differs from the leaf of an expected pytree."""
    expected_leaves = _leaves(expected)
    leaves = _leaves(got)
    for path in dict.fromkeys((*expected_leaves, *leaves)):
        kind = leaves.get(path, 'nothing')
        expected_kind = expected_leaves.get(path, 'nothing')
        if kind != expected_kind:
            where = path or 'its top'
            value = f'{kind_of(got)} with {kind} at {where}, not {expected_kind}'
            raise errors.invalid(argument, requirement, value)
    structure: Any = jax.tree.structure(got)
    if structure != jax.tree.structure(expected):
        raise errors.invalid(argument, f'{requirement}, {_name(expected)}', _name(got))


def check_round(before: PyTree, output: Any) -> None:
    """Raises unless a round returns a state of the structure that it took, and metrics."""
    requirement = 'return (state, RoundMetrics) from `round_step`'
    if not isinstance(output, tuple) or len(output) != 2:
        raise errors.invalid('algorithm', requirement, kind_of(output))
    after, metrics = output
    check_same_structure(
        'algorithm', 'return the state that `round_step` was given', before, after
    )
    if not isinstance(metrics, base.RoundMetrics):
        got = f'{kind_of(after)} and {kind_of(metrics)}'
        raise errors.invalid('algorithm', requirement, got)
    for name in ('num_active', 'num_computing', 'loss_sum'):
        value = getattr(metrics, name)
        if np.shape(value) or not (isinstance(value, int | float) or _is_real(value)):
            requirement = f'return a number as `RoundMetrics.{name}`'
            raise errors.invalid('algorithm', requirement, kind_of(value))


def check_numbers_by_name(
    argument: str, requirement: str, measured: Any, *lead: int
) -> None:
    """Raises unless metrics are real numbers by name.

    Args:
      argument: the argument that returned the metrics.
      requirement: what that argument must do.
      measured: the metrics, arrays or shapes.
      *lead: lengths of the leading axes of each number, such as rounds.
    """
    if not isinstance(measured, Mapping):
        raise errors.invalid(argument, requirement, kind_of(measured))
    for name, value in measured.items():
        if not checks.is_text(name):
            raise errors.invalid(argument, requirement, f'the name {name!r}')
        if not _is_real(value) or value.shape != lead:
            got = f'{kind_of(value)} as {name!r}'
            raise errors.invalid(argument, requirement, got)


def check_extra_metrics(rounds: base.RoundMetrics) -> None:
    """Raises unless an algorithm's metrics of rounds, leaves [T], can be written by name."""
    num_rounds = len(rounds.num_active)
    requirement = 'return numbers by name in `RoundMetrics.extra`'
    check_numbers_by_name('algorithm', requirement, rounds.extra, num_rounds)
    for name in rounds.extra:
        if name in rounds._fields:
            requirement = 'name metrics in `RoundMetrics.extra` unlike the other fields'
            raise errors.invalid('algorithm', requirement, repr(name))


def server_of(models: object) -> Params:
    """Returns the server model; raises where there is none."""
    if not isinstance(models, Mapping):
        requirement = "return models by name, such as {'server': params}"
        raise errors.invalid('algorithm', requirement, kind_of(models))
    if 'server' not in models:
        got = errors.text_of(list(models))
        raise errors.invalid('algorithm', 'have a model `server`', got)
    return models['server']


def check_state(state: object, argument: str = 'initial_state') -> None:
    """Raises unless ``state`` is the state of a federation."""
    if not isinstance(state, base.FederationState):
        requirement = 'be a FederationState, such as `result.state`'
        raise errors.invalid(argument, requirement, kind_of(state))


def check_federation(state: object, algorithm: object, problem: object) -> None:
    """Raises unless the arguments are the state of a federation, an algorithm and a problem."""
    check_state(state, 'state')
    check_algorithm(algorithm)
    check_problem(problem)


def check_advance(
    state: Any,
    key: base.Key,
    algorithm: base.Algorithm,
    links: base.Links,
    problem: base.Problem,
) -> None:
    """Raises unless further rounds can run from a state under these links.

    Args:
      state: the state of a federation.
      key: any key.
      algorithm: the algorithm that made the state.
      links: the links of these rounds, leaves [T, ...].
      problem: the problem that state and links belong to.
    """
    check_federation(state, algorithm, problem)
    check_rounds(links, problem)
    if meshes.in_shard_map():  # The state was checked outside.
        return

    def init(key: base.Key, problem: base.Problem) -> PyTree:
        params = tree.as_arrays(problem.init_params(key))
        return algorithm.init(params, problem)

    expected = jax.eval_shape(init, key, problem)
    requirement = 'fit `algorithm` and `problem`'
    check_same_structure('state.algorithm', requirement, expected, state.algorithm)


def check_fit(state: PyTree, expected: PyTree, *, has_pattern: bool) -> None:
    """Raises for the first leaf of a state that another algorithm, pattern or problem made.

    Args:
      state: the state of a federation.
      expected: the state before round 0, by shapes.
      has_pattern: whether a pattern samples the links. Under precomputed links the pattern's carry
        is unused, and is not checked.
    """
    parts = {'algorithm': 'algorithm', 'counters': 'problem'}
    if has_pattern:
        parts |= {'participation': 'participation', 'links': 'participation'}
    for part, maker in parts.items():
        check_same_structure(
            f'initial_state.{part}',
            f'fit `{maker}`',
            getattr(expected, part),
            getattr(state, part),
        )


def kind_of(value: object) -> str:
    """Says what a value is: the dtype and shape of an array, else its type or the value itself."""
    if hasattr(value, 'dtype') and hasattr(value, 'shape'):
        return f'{value.dtype}{list(value.shape)}'
    if value is None or isinstance(value, bool | int | float | str):
        return errors.text_of(value)
    return _name(value)


def _leaves(tree: PyTree) -> dict[str, str]:
    """Returns dtype and shape of every leaf by its path."""
    kinds: dict[str, str] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        kinds[jax.tree_util.keystr(path)] = f'{_dtype(leaf)}{list(np.shape(leaf))}'
    return kinds


def _is_real(value: object) -> bool:
    """Returns whether a value is an array of booleans or real numbers, or such an array's shape."""
    dtype = getattr(value, 'dtype', None)
    if dtype is None:
        return False
    return any(jnp.issubdtype(dtype, kind) for kind in _KINDS.values())


def _dtype(value: object) -> np.dtype:
    return getattr(value, 'dtype', None) or jnp.result_type(value)


def _name(value: object) -> str:
    if callable(value) and hasattr(value, '__name__'):
        return f'the function {value.__name__}'
    name = type(value).__name__
    return f'an {name}' if name[0] in 'AEIOUaeio' else f'a {name}'
