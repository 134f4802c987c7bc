"""What comes in from a caller's own parts: kinds and shapes, looked at while a program is traced.

Nothing here looks at values, so that nothing of it is left in a compiled program.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import base
from fedjax_links.core import errors

SAMPLES = (
    base.LinkSample,
    base.DuplexLinkSample,
    base.PeerLinkSample,
    base.CohortLinkSample,
)
_KINDS = {'bool': np.bool_, 'float': np.floating, 'int': np.integer}


def check_algorithm(algorithm: Any) -> None:
    """Raises unless it has the functions of an algorithm."""
    parts = 'init', 'round_step', 'models'
    if not all(callable(getattr(algorithm, part, None)) for part in parts):
        requirement = (
            "be an algorithm, as `fl.ALGORITHMS['fedavg'](client_program)` makes one"
        )
        raise errors.invalid('algorithm', requirement, kind_of(algorithm))


def check_parts(algorithm: Any, participation: Any, problem: Any) -> None:
    """Raises unless these are an algorithm, a pattern or a sample of links, and a problem."""
    check_algorithm(algorithm)
    check_problem(problem)
    if not isinstance(participation, SAMPLES):
        check_pattern(participation)


def check_problem(problem: Any) -> None:
    """Raises unless it has clients and parameters."""
    if not (hasattr(problem, 'num_clients') and hasattr(problem, 'init_params')):
        requirement = 'be a problem, as those of `fl.problems` make one'
        raise errors.invalid('problem', requirement, kind_of(problem))


def check_pattern(participation: Any) -> None:
    """Raises unless it is a pattern."""
    if not isinstance(participation, base.Participation):
        requirement = 'be a pattern, as `participation.replay(mask)` makes of a mask'
        raise errors.invalid('participation', requirement, kind_of(participation))


def check_rounds(links: Any) -> None:
    """Raises unless it is a sample of links."""
    if not isinstance(links, SAMPLES):
        requirement = 'be links of all rounds, as `realised_links` gives them'
        raise errors.invalid('links', requirement, kind_of(links))


def check_links(
    links: Any, num_clients: int, *lead: int, argument: str = 'participation'
) -> None:
    """Raises unless what a pattern draws, by shapes, is a sample of N clients.

    Args:
      links: the sample; leaves are arrays or shapes.
      num_clients: N.
      *lead: leading axes of its leaves, such as rounds.
      argument: what drew it.
    """
    if not isinstance(links, SAMPLES):
        raise errors.invalid(argument, 'draw a LinkSample', kind_of(links))
    if isinstance(links, base.CohortLinkSample):
        if links.num_clients != num_clients:
            requirement = f'draw links of its {num_clients} clients'
            raise errors.invalid(argument, requirement, links.num_clients)
        _check(argument, 'ids', links.ids, 'int', (*lead, np.shape(links.ids)[-1]))
        return
    each = (*lead, num_clients)
    for name in ('mask', 'prob', 'downlink', 'compute', 'duration'):
        value = getattr(links, name, None)
        if value is None and name not in ('mask', 'prob'):
            continue
        kind = 'float' if name in ('prob', 'duration') else 'bool'
        _check(argument, name, value, kind, lead if name == 'duration' else each)
    if isinstance(links, base.PeerLinkSample):
        width = (np.shape(links.neighbours) or (0,))[-1]
        _check(argument, 'neighbours', links.neighbours, 'int', (*each, width))
        _check(argument, 'edges', links.edges, 'bool', (*each, width))
        if links.edge_prob is not None and np.shape(links.edge_prob) != lead:
            _check(argument, 'edge_prob', links.edge_prob, 'float', (*each, width))


def _check(
    argument: str, name: str, value: Any, kind: str, shape: tuple[int, ...]
) -> None:
    """Raises unless a field of a sample has a kind of numbers and a shape."""
    is_kind = value is not None and jnp.issubdtype(_dtype(value), _KINDS[kind])
    if not is_kind or np.shape(value) != shape:
        requirement = f'draw `{name}` as {kind}{list(shape)}'
        raise errors.invalid(argument, requirement, kind_of(value))


def check_alike(argument: str, requirement: str, wanted: Any, got: Any) -> None:
    """Raises for the first leaf in which a pytree differs from another by kind or shape."""
    theirs, ours = _leaves(got), _leaves(wanted)
    for place in dict.fromkeys((*ours, *theirs)):
        there, here = theirs.get(place, 'nothing'), ours.get(place, 'nothing')
        if there != here:
            said = f'{kind_of(got)} with {there} at {place or "its top"}, not {here}'
            raise errors.invalid(argument, requirement, said)
    structures: list[Any] = [jax.tree.structure(tree) for tree in (wanted, got)]
    if structures[0] != structures[1]:
        raise errors.invalid(argument, f'{requirement}, {_name(wanted)}', _name(got))


def check_round(before: Any, after: Any) -> None:
    """Raises unless a round leaves a state of the kind that it was given."""
    check_alike(
        'algorithm', 'return the state that `round_step` was given', before, after
    )


def server_of(models: Mapping[str, Any]) -> Any:
    """The server model; raises where there is none."""
    if 'server' not in models:
        raise errors.invalid('algorithm', 'have a model `server`', ', '.join(models))
    return models['server']


def check_state(state: Any) -> None:
    """Raises unless it is the state of a federation."""
    if not isinstance(state, base.FederationState):
        requirement = 'be a FederationState, such as `result.state`'
        raise errors.invalid('initial_state', requirement, kind_of(state))


def check_fit(state: Any, wanted: Any, *, has_pattern: bool) -> None:
    """Raises for the first leaf of a state that another algorithm, pattern or problem made.

    Args:
      state: the state of a federation.
      wanted: as it would begin, by shapes.
      has_pattern: whether a pattern draws the links; given ones leave its carry as it is.
    """
    parts = {'algorithm': 'algorithm', 'counters': 'problem'}
    if has_pattern:
        parts |= {'participation': 'participation', 'links': 'participation'}
    for part, whose in parts.items():
        theirs, ours = getattr(state, part), getattr(wanted, part)
        check_alike(f'initial_state.{part}', f'fit `{whose}`', ours, theirs)


def kind_of(value: Any) -> str:
    """What a value is, in a word or two: an array's kind and shape, else its type or itself."""
    if hasattr(value, 'dtype') and hasattr(value, 'shape'):
        return f'{value.dtype}{list(value.shape)}'
    if value is None or isinstance(value, bool | int | float | str):
        return errors.text_of(value)
    return _name(value)


def _leaves(tree: Any) -> dict[str, str]:
    """Kind and shape of every leaf by its place."""
    found = jax.tree_util.tree_leaves_with_path(tree)
    return {
        jax.tree_util.keystr(path): f'{_dtype(leaf)}{list(np.shape(leaf))}'
        for path, leaf in found
    }


def _dtype(value: Any) -> Any:
    return getattr(value, 'dtype', None) or jnp.result_type(value)


def _name(value: Any) -> str:
    if callable(value) and hasattr(value, '__name__'):
        return f'the function {value.__name__}'
    name = type(value).__name__
    return f'an {name}' if name[0] in 'AEIOUaeio' else f'a {name}'
