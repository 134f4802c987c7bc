"""Draws the realised links of a run once more, without training, to record them in its folder.

Realised links say, round by round, what a pattern drew: who takes part, and with which probability.
All algorithms meet the same links at one pattern and seed, so the record has no algorithms.
"""

import math
import time
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

# Without `log`, larger records are left out: 16 MiB of masks.
_MAX_LINKS = 2**27
_RANGES = {
    'prob': (0.0, 1.0, 'draw probabilities in [0, 1], or NaN'),
    'chance': (0.0, 1.0, 'draw probabilities in [0, 1], or NaN'),
    'edge_prob': (0.0, 1.0, 'draw probabilities of edges in [0, 1], or NaN'),
    'duration': (0.0, math.inf, 'draw durations that are not negative'),
}
"""Least and largest valid number of a field of links, and the requirement for errors."""


def record_links(
    programs: Programs, initial_states: InitialStates
) -> dict[str, np.ndarray]:
    """Draws the links of the first seed, or of all seeds if ``log`` has ``'links'``.

    Args:
      programs: of the plan.
      initial_states: the states that lanes of the main stage begin with.

    Returns:
      The arrays of ``links.npz``. Masks are packed, with one bit for each link.
    """
    plan = programs.plan
    arrays: dict[str, np.ndarray] = {}
    if initial_states.round:
        arrays['first_round'] = np.array(initial_states.round)
        arrays['num_rounds'] = np.array(plan.num_rounds)
    for name, (label, seed) in recorded(programs).items():
        links = _record_seed(programs, label, seed, initial_states)
        probs = links.pop('prob')
        if LINKS in plan.settings.log:
            arrays[f'prob/{name}'] = probs
        # In float32, a sum over many rounds would lose digits.
        means = probs.mean(axis=0, dtype=np.float64)
        arrays[f'mean_prob/{name}'] = means.astype(probs.dtype)
        if 'neighbours' in links:  # the same in all rounds
            arrays[f'neighbours/{name}'] = links.pop('neighbours')[0]
        for kind, values in links.items():
            if values.dtype == bool:
                values = np.packbits(values, axis=-1)
            arrays[f'{kind}/{name}'] = values
    return arrays


def has_record(programs: Programs, initial_states: InitialStates, folder: Path) -> bool:
    """Returns whether a folder already has the links that `record_links` would draw.

    Args:
      programs: as in `record_links`.
      initial_states: as in `record_links`.
      folder: of a run of the experiment. If several processes run, only their leader reads it.
    """

    def answer() -> bool:
        if initial_states.has_links(folder, programs.plan.num_rounds):
            return True
        try:
            stored = runs.read_links(folder)
        except errors.InvalidError:  # The file was changed.
            return False
        return _is_complete(programs, initial_states, stored)

    has_links: bool = processes.broadcast_from_leader(answer)
    return has_links


def _is_complete(
    programs: Programs,
    initial_states: InitialStates,
    stored: Mapping[str, np.ndarray],
) -> bool:
    """Returns whether stored links have all rounds, patterns and seeds.

    The file may hold more, such as other seeds that an earlier command logged.
    """
    plan = programs.plan
    names = recorded(programs)
    kinds = ['mask', 'mean_prob']
    if LINKS in plan.settings.log:
        kinds.append('prob')
    new_names = {f'{kind}/{name}' for kind in kinds for name in names}
    first_round = int(stored.get('first_round', 0))
    if not new_names <= stored.keys() or first_round != initial_states.round:
        return False
    num_rounds = plan.num_rounds - initial_states.round
    masks = [array for name, array in stored.items() if name.startswith('mask/')]
    return all(len(mask) == num_rounds for mask in masks)


def recorded(programs: Programs) -> dict[str, tuple[str, int]]:
    """Returns pattern and seed of all links that a run records, by the name in ``links.npz``.

    Args:
      programs: of the plan.
    """
    plan = programs.plan
    names: dict[str, tuple[str, int]] = {}
    is_logged = LINKS in plan.settings.log
    seeds = plan.seeds if is_logged else plan.seeds[:1]
    for label in plan.patterns:
        if not is_logged and _num_links(programs, label) > _MAX_LINKS:
            continue
        for index, seed in enumerate(seeds):
            # The name of the first seed's links has no seed.
            name = f'{label}/{seed}' if index else label
            names[name] = label, seed
    return names


def time_draws(
    programs: Programs, label: str, seed: int, initial_states: InitialStates
) -> float:
    """Estimates the seconds to draw the links of a pattern and a seed, from a few rounds.

    Args:
      programs: of the plan.
      label: of the pattern.
      seed: of the links.
      initial_states: what the lanes of the main stage begin with.
    """
    chunks = _chunks_of_arrays(programs, label, seed, initial_states)
    began = time.perf_counter()
    num_rounds = len(next(chunks)['mask'])
    first_seconds = time.perf_counter() - began  # with what is compiled
    num_left = programs.plan.num_rounds - initial_states.round - num_rounds
    if num_left <= 0:
        return first_seconds
    began = time.perf_counter()
    num_timed = len(next(chunks)['mask'])
    seconds = time.perf_counter() - began
    return first_seconds + num_left * seconds / num_timed


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
    """Draws the links of a pattern and a seed, in all rounds of the run.

    Returns:
      ``mask`` bool[T, N] and ``prob`` float[T, N]. A pattern with durations adds ``duration``
      float[T]. A pattern with links between clients adds ``neighbours`` int32[T, N, K] and
      ``edges`` bool[T, N * K].
    """
    chunks = list(_chunks_of_arrays(programs, label, seed, initial_states))
    return {
        kind: np.concatenate([chunk[kind] for chunk in chunks]) for kind in chunks[0]
    }


def first_active(programs: Programs, label: str) -> int | None:
    """Finds the first round in which a client takes part, under the first seed's links.

    Links are drawn some rounds at a time, and no further than needed.

    Args:
      programs: of the plan.
      label: of the pattern.

    Returns:
      The round; None if no client takes part in the whole run.

    Raises:
      ValueError: if the pattern draws numbers out of range.
    """
    rounds_before = 0
    first_seed = programs.plan.seeds[0]
    for links in _chunks_of_links(programs, label, first_seed, InitialStates()):
        _check_ranges(links, label)
        is_active = _rounds_with_participants(links)
        if is_active.any():
            return rounds_before + int(np.argmax(is_active))
        rounds_before += len(is_active)
    return None


def _check_ranges(links: Links, label: str) -> None:
    """Raises for probabilities and durations out of range; NaN stands for unknown."""
    fields = list(_RANGES)
    if isinstance(links, base.CohortLinkSample):
        fields = ['chance']  # without `prob`, which would cost O(N) in each round
    for field in fields:
        values = getattr(links, field, None)
        if values is None:
            continue
        least, most, requirement = _RANGES[field]
        numbers = np.asarray(values)
        is_outside = (numbers < least) | (numbers > most)
        if is_outside.any():
            got = float(numbers[is_outside].flat[0])
            raise errors.invalid(f'patterns.{label}', requirement, got)


def _rounds_with_participants(links: Links) -> np.ndarray:
    """Returns bool[T], in which of T rounds any client takes part."""
    if isinstance(links, base.CohortLinkSample):  # without a mask of all N clients
        is_active = np.asarray(links.ids) < links.num_clients
        return np.any(is_active, axis=1)
    is_active = np.any(np.asarray(base.participants(links)), axis=1)
    if base.has_peers(links):  # Clients that reach each other need no server.
        is_active |= np.asarray(links.edges).any(axis=(1, 2))
    return is_active


def _chunks_of_arrays(
    programs: Programs, label: str, seed: int, initial_states: InitialStates
) -> Iterator[dict[str, np.ndarray]]:
    """Yields the arrays of `_record_seed`, some rounds at a time."""
    for links in _chunks_of_links(programs, label, seed, initial_states):
        arrays = {'mask': base.participants(links), 'prob': links.prob}
        if base.has_peers(links):
            arrays['neighbours'] = links.neighbours
            arrays['edges'] = links.edges.reshape(len(links.edges), -1)
        duration = getattr(links, 'duration', None)
        if duration is not None:
            arrays['duration'] = duration
        yield {kind: np.asarray(values) for kind, values in arrays.items()}


def _chunks_of_links(
    programs: Programs, label: str, seed: int, initial_states: InitialStates
) -> Iterator[Links]:
    """Draws the links of some rounds at a time, with leaves [T, ...] on the host."""
    plan = programs.plan
    point = plan.points[0]
    period = plan.eval_every
    pattern = programs.links(plan.pattern_at(label, point, seed))
    program = programs.link_program(pattern)
    device = programs.slots[0].first_device
    carry = initial_states.carry(label, seed)
    # Inputs are put on a device, as for lanes, so that both use one compiled program.
    key, constants = jax.device_put(
        (plan.draws.key_of('links', seed, point), pattern.constants), device
    )
    num_lead_axes = 2  # periods and their rounds
    if programs.side_by_side:
        # The program takes a leading axis of lanes, here of one lane.
        num_lead_axes = 3
        key = key[None]
        if carry is not None:
            carry = jax.tree.map(lambda a: a[None], carry)
    if carry is None:
        carry = program.start(constants, key)
    max_periods = compilation.most_periods(pattern.sample, period)
    for first in range(initial_states.round, plan.num_rounds, max_periods * period):
        num_rounds = min(max_periods * period, plan.num_rounds - first)
        first_round, num_periods = jax.device_put(
            (np.int32(first), np.int32(num_rounds // period)), device
        )
        carry, links = program.draw(
            constants, carry, key, first_round, num_periods, max_periods=max_periods
        )
        yield _with_one_axis(jax.device_get(links), num_lead_axes, num_rounds)


def _with_one_axis(links: Links, num_lead_axes: int, num_rounds: int) -> Links:
    """Returns links with one axis of rounds in place of lanes, periods and rounds."""

    def flatten(leaf: np.ndarray) -> np.ndarray:
        return leaf.reshape(-1, *leaf.shape[num_lead_axes:])[:num_rounds]

    flat: Links = jax.tree.map(flatten, links)
    return flat
