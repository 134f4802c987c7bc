"""What an experiment is, in a few lines, before it runs."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from fedjax_links import evaluation
from fedjax_links.base import Problem
from fedjax_links.core import describing, memory, tree
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.plan import lanes, redraws
from fedjax_links.experiment.running.programs import Programs
from fedjax_links.problems import owners, partition

_ENOUGH_PHASES = 10  # of a cycle, evenly spread: as many as the papers' own evaluations see


def text(experiment: Experiment) -> str:
    """Title, problems, links, the work ahead and the memory that lanes need.

    Args:
      experiment: the experiment.

    Returns:
      Some lines.
    """
    programs = Programs(experiment)
    problems = _problems(experiment)
    lines = [experiment.title]
    for problem, labels in problems:
        whose = f' ({", ".join(labels)})' if len(problems) > 1 else ''
        lines += _describe_problem(problem, whose)
    lines += _describe_work(experiment, len(problems))
    lines += _describe_redraws(experiment)
    lines += _describe_phases(experiment)
    data = sum(_data_bytes(experiment.family_of(problem).members) for problem, _ in problems)
    lines.append(
        f'memory   data {memory.size(data)}; states and links beside them, without the work '
        'space of a round:'
    )
    for label, needed in memory_by_algorithm(experiment, programs).items():
        lines.append(
            f'         {label:16s} {memory.size(needed[0])} per lane, '
            f'{memory.size(needed[0] * needed[1])} for {needed[1]} at a time'
        )
    return '\n'.join(lines)


def memory_by_algorithm(
    experiment: Experiment, programs: Programs
) -> Mapping[str, tuple[int, int]]:
    """By label, bytes of a lane beside the data and how many lanes run together."""
    found = {}
    for label in experiment.algorithms:
        largest, count = largest_lane(experiment, programs, label)
        together = programs.num_at_a_time(largest, count)
        found[label] = (programs.lane_bytes(largest), together)
    return found


def largest_lane(experiment: Experiment, programs: Programs, label: str) -> tuple[lanes.Lane, int]:
    """The main lane of an algorithm that keeps most, and how many main lanes there are."""
    every = lanes.main_lanes(experiment, label, lanes.first_tried(experiment, label))
    return max(_one_per_problem(programs, every), key=programs.lane_bytes), len(every)


def _problems(experiment: Experiment) -> list[tuple[Problem, list[str]]]:
    """The problems at the first point, each with the patterns that have it."""
    found: dict[int, tuple[Problem, list[str]]] = {}
    for label in experiment.pattern_makers:
        problem = experiment.problem_at(label, experiment.grid_points[0])
        found.setdefault(id(problem), (problem, []))[1].append(label)
    return list(found.values())


def _describe_problem(problem: Problem, whose: str) -> list[str]:
    params = jax.eval_shape(problem.init_params, jax.random.key(0))
    each = describing.span(str(problem.min_examples), str(problem.max_examples))
    lines = [
        f'problem  {problem.num_clients:,} clients with {each} examples, '
        f'{tree.size(params):,} parameters{whose}'
    ]
    labels = getattr(problem.data, 'labels', None)
    if labels is not None and labels.ndim == 1 and np.issubdtype(labels.dtype, np.integer):
        mix = partition.report(owners(problem), np.asarray(labels))
        lines.append(
            f'data     {np.mean(mix.classes_held):.1f} of {mix.class_mix.shape[1]} labels per '
            f'client, total variation {np.mean(mix.total_variation):.2f} from the global mix'
        )
    if known := evaluation.attainable_text(problem):
        lines.append(f"best     {known} (the population's best model, exact)")
    return lines


def _data_bytes(members: Sequence[Problem]) -> int:
    """Bytes of the data of problems that may hold arrays together."""
    leaves = {id(leaf): leaf for member in members for leaf in jax.tree.leaves(member.data)}
    return sum(tree.num_bytes(leaf) for leaf in leaves.values())


def _describe_redraws(experiment: Experiment) -> list[str]:
    """Which draws are made anew by every seed, unless that is as always."""
    ways = experiment.draws.ways()
    if ways == redraws.DEFAULTS:
        return []
    by_seed = [name for name, way in ways.items() if way == redraws.BY_SEED]
    columns = redraws.COLUMNS
    drawn = [name for name in ways if columns.get(name) in {None, *experiment.columns_taken}]
    fixed = [name for name in drawn if name not in by_seed]
    also = f'; fixed: {", ".join(fixed)}' if fixed else ''
    return [f'draws    by seed: {", ".join(by_seed)}{also}']


def _describe_work(experiment: Experiment, num_problems: int) -> list[str]:
    labels = list(experiment.algorithms)
    total = sum(lanes.count_rounds(experiment, label) for label in labels)
    tuned = any(lanes.tuning_points(experiment, label) for label in labels)
    factors = [
        _count(labels, 'algorithm'),
        _count(experiment.pattern_makers, 'pattern'),
        *([f'{len(experiment.grid_points)} points'] if len(experiment.grid_points) > 1 else []),
        _count(experiment.seeds, 'seed'),
        f'{experiment.num_rounds:,} rounds',
    ]
    return [
        f'work     {" x ".join(factors)}{" and tuning" if tuned else ""}: {total:,} rounds',
    ]


def _describe_phases(experiment: Experiment) -> list[str]:
    """Which patterns repeat so that evaluations see only a few rounds of their cycle."""
    every, last = experiment.eval_every, experiment.num_rounds
    lines = []
    for label in experiment.pattern_makers:
        cycle = experiment.pattern_at(label, experiment.grid_points[0]).cycle
        if cycle is None:
            continue
        seen = cycle // math.gcd(cycle, every)
        if seen < min(cycle, last // every, _ENOUGH_PHASES):
            coprime = next(n for n in itertools.count(every + 1) if math.gcd(n, cycle) == 1)
            lines.append(
                f'warning  {label} repeats every {cycle} rounds: evaluations every {every} see '
                f'{_count(range(seen), "round")} of them, such as {coprime} would see all'
            )
    return lines


def _count(things: Any, word: str) -> str:
    return f'{len(things)} {word}{"" if len(things) == 1 else "s"}'


def _one_per_problem(programs: Programs, every: Sequence[lanes.Lane]) -> list[lanes.Lane]:
    return list({programs.key(lane): lane for lane in every}.values())
