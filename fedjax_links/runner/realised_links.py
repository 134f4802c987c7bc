"""The realised links of a run: drawn apart from its lanes, and kept in its folder."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import jax
import numpy as np

from fedjax_links import base, runs
from fedjax_links.base import Links
from fedjax_links.core import errors
from fedjax_links.machines import processes
from fedjax_links.runner import compilation
from fedjax_links.runner.hooks import LINKS, InitialStates
from fedjax_links.runner.program_cache import Programs

_MOST_LINKS = 2**27


def record_links(
    programs: Programs, initial_states: InitialStates
) -> dict[str, np.ndarray]:
    """Draws the links of the first seed, or of every seed where ``log`` names them.

    Args:
      programs: of the plan.
      initial_states: what the lanes of its main stage begin with.

    Returns:
      What `links.npz` holds, masks with one bit each.
    """
    plan = programs.plan
    arrays: dict[str, np.ndarray] = {}
    if initial_states.round:
        arrays['first_round'] = np.array(initial_states.round)
        arrays['num_rounds'] = np.array(plan.num_rounds)
    for name, (label, seed) in _recorded_names(programs).items():
        links = _record_seed(programs, label, seed, initial_states)
        probs = links.pop('prob')
        if LINKS in plan.settings.log:
            arrays[f'prob/{name}'] = probs
        arrays[f'mean_prob/{name}'] = probs.mean(axis=0)
        if 'neighbours' in links:
            arrays[f'neighbours/{name}'] = links.pop('neighbours')[0]
        for kind, values in links.items():
            is_mask = values.dtype == bool
            arrays[f'{kind}/{name}'] = (
                np.packbits(values, axis=-1) if is_mask else values
            )
    return arrays


def has_record(programs: Programs, initial_states: InitialStates, folder: Path) -> bool:
    """Whether a folder of the experiment has what `record_links` would give it.

    Args:
      programs: as in `record_links`.
      initial_states: likewise.
      folder: of a run of the experiment; the leader of several processes looks at it.
    """

    def answer() -> bytes:
        if initial_states.has_links(folder, programs.plan.num_rounds):
            return b'yes'
        try:
            stored = runs.read_links(folder)
        except errors.InvalidError:  # the file was changed
            return b'no'
        is_complete = _is_complete(programs, initial_states, stored)
        return b'yes' if is_complete else b'no'

    return processes.ask_leader(answer) == b'yes'


def _is_complete(
    programs: Programs,
    initial_states: InitialStates,
    stored: Mapping[str, np.ndarray],
) -> bool:
    """Whether these are the links of all rounds, patterns and seeds that are wanted."""
    plan = programs.plan
    names = _recorded_names(programs)
    kinds = ['mask', 'mean_prob']
    if LINKS in plan.settings.log:
        kinds.append('prob')
    wanted = {f'{kind}/{name}' for kind in kinds for name in names}
    present = {
        name for name in stored if name.split('/')[0] in ('mask', 'mean_prob', 'prob')
    }
    first_round = int(stored.get('first_round', 0))
    if present != wanted or first_round != initial_states.round:
        return False
    num_rounds = plan.num_rounds - initial_states.round
    return all(len(stored[f'mask/{name}']) == num_rounds for name in names)


def _recorded_names(programs: Programs) -> dict[str, tuple[str, int]]:
    """Pattern and seed of the links that are kept, by the name that they have in `links.npz`."""
    plan = programs.plan
    names: dict[str, tuple[str, int]] = {}
    is_logged = LINKS in plan.settings.log
    seeds = plan.seeds if is_logged else plan.seeds[:1]
    for label in plan.patterns:
        if not is_logged and _num_links(programs, label) > _MOST_LINKS:
            continue
        for index, seed in enumerate(seeds):
            name = f'{label}/{seed}' if index else label
            names[name] = label, seed
    return names


def _num_links(programs: Programs, label: str) -> int:
    """Counts the links of a pattern over all rounds."""
    plan = programs.plan
    pattern = plan.pattern_at(label, plan.points[0])
    sample = programs.links(pattern).sample
    num_edges = math.prod(sample.edges.shape) if base.has_peers(sample) else 0
    return (pattern.num_clients + num_edges) * plan.num_rounds


def _record_seed(
    programs: Programs, label: str, seed: int, initial_states: InitialStates
) -> dict[str, np.ndarray]:
    """Draws the links of a pattern and a seed, from the first round of the run on.

    Returns:
      ``mask`` bool[T, N], ``prob`` float[T, N]; ``duration`` float[T] of rounds that have one; of
      links between clients ``neighbours`` int32[T, N, K] and ``edges`` bool[T, N * K].
    """
    pieces = list(_pieces(programs, label, seed, initial_states))
    return {
        kind: np.concatenate([piece[kind] for piece in pieces]) for kind in pieces[0]
    }


def first_active(programs: Programs, label: str) -> int | None:
    """Finds the first round in which a client takes part, under the first seed's links.

    No more rounds are drawn than it takes.

    Args:
      programs: of the plan.
      label: of the pattern.

    Returns:
      The round; None if there is none in the whole run.
    """
    rounds_before = 0
    for links in _drawn(programs, label, programs.plan.seeds[0], InitialStates()):
        is_active = _someone_takes_part(links)
        if is_active.any():
            return rounds_before + int(np.argmax(is_active))
        rounds_before += len(is_active)
    return None


def _someone_takes_part(links: Links) -> np.ndarray:
    """Returns bool[T], in which of T rounds a client does; few names need no masks of all."""
    if isinstance(links, base.CohortLinkSample):
        is_active = np.asarray(links.ids) < links.num_clients
        return np.any(is_active, axis=1)
    is_active = np.any(np.asarray(base.participants(links)), axis=1)
    if base.has_peers(links):  # clients with links between them train without a server
        is_active |= np.asarray(links.edges).any(axis=(1, 2))
    return is_active


def _pieces(
    programs: Programs, label: str, seed: int, initial_states: InitialStates
) -> Iterator[dict[str, np.ndarray]]:
    """Yields what `_record_seed` returns, as many rounds at a time as are drawn."""
    for links in _drawn(programs, label, seed, initial_states):
        piece = {'mask': base.participants(links), 'prob': links.prob}
        if base.has_peers(links):
            piece['neighbours'] = links.neighbours
            piece['edges'] = links.edges.reshape(len(links.edges), -1)
        duration = getattr(links, 'duration', None)
        if duration is not None:
            piece['duration'] = duration
        yield {kind: np.asarray(values) for kind, values in piece.items()}


def _drawn(
    programs: Programs, label: str, seed: int, initial_states: InitialStates
) -> Iterator[Links]:
    """Draws links of T rounds at a time, on the host: every array has T rows."""
    plan = programs.plan
    point = plan.points[0]
    period = plan.eval_every
    pattern = programs.links(plan.pattern_at(label, point, seed))
    program = programs.link_program(pattern)
    device = programs.places[0].home
    carry = initial_states.carry(label, seed)
    # On a device, as those of lanes: one program for both.
    key, constants = jax.device_put(
        (plan.draws.key_of('links', seed, point), pattern.constants), device
    )
    if programs.side_by_side:
        key = key[None]
        carry = jax.tree.map(lambda a: a[None], carry)
    if carry is None:
        carry = program.start(constants, key)
    max_periods = compilation.most_periods(pattern.sample, period)
    num_lead_axes = 3 if programs.side_by_side else 2
    for first in range(initial_states.round, plan.num_rounds, max_periods * period):
        num_rounds = min(max_periods * period, plan.num_rounds - first)
        first_round, num_periods = jax.device_put(
            (np.int32(first), np.int32(num_rounds // period)), device
        )
        carry, drawn = program.draw(
            constants, carry, key, first_round, num_periods, most=max_periods
        )
        yield _with_one_axis(jax.device_get(drawn), num_lead_axes, num_rounds)


def _with_one_axis(drawn: Links, num_lead_axes: int, num_rounds: int) -> Links:
    """Returns drawn links with one axis of rounds in place of lanes, periods and rounds."""

    def flatten(leaf: np.ndarray) -> np.ndarray:
        return leaf.reshape(-1, *leaf.shape[num_lead_axes:])[:num_rounds]

    links: Links = jax.tree.map(flatten, drawn)
    return links
