"""Describes a plan in a few lines: problems, the work ahead, draws, and warnings.

A lane is one simulation (`planning.lanes.Lane`), a shard is a part of the lanes.
"""

import itertools
import math

import jax
import numpy as np

from fedjax_links import evaluation
from fedjax_links.base import Problem
from fedjax_links.core import reprs, tree
from fedjax_links.planning import seeding, sequential_seeds
from fedjax_links.planning.plan import Plan
from fedjax_links.problems.classification import partition_of

_ENOUGH_PHASES = 10
"""How many rounds of a cycle, evenly spread, evaluations should see: as many as in the papers."""


def describe(plan: Plan) -> str:
    """Describes title, problems, the work ahead, draws, and warnings.

    Args:
      plan: of an experiment.

    Returns:
      Some lines.
    """
    lines = [plan.settings.title]
    problems = _problems_at_first_point(plan)
    for problem, labels in problems:
        patterns = f' ({", ".join(labels)})' if len(problems) > 1 else ''
        lines += _describe_problem(problem, patterns)
    lines += _describe_work(plan)
    lines += describe_recordings(plan)
    lines += _describe_redraws(plan)
    lines += _describe_phases(plan)
    return '\n'.join(lines)


def _problems_at_first_point(plan: Plan) -> list[tuple[Problem, list[str]]]:
    """Returns the distinct problems, each with the labels of the patterns that use it."""
    problems: dict[int, tuple[Problem, list[str]]] = {}
    for label in plan.patterns:
        problem = plan.problem_at(label, plan.points[0])
        _, labels = problems.setdefault(id(problem), (problem, []))
        labels.append(label)
    return list(problems.values())


def _describe_problem(problem: Problem, patterns: str) -> list[str]:
    """Describes sizes, label mix, test data and the best model of a problem."""
    params = jax.eval_shape(problem.init_params, jax.random.key(0))
    num_examples = reprs.span(str(problem.min_examples), str(problem.max_examples))
    lines = [
        f'problem  {problem.num_clients:,} clients with {num_examples} examples, '
        f'{tree.size(params):,} parameters{patterns}'
    ]
    mix = partition_of(problem)
    if mix.global_mix.size:
        lines.append(
            f'data     {np.mean(mix.classes_held):.1f} of {mix.global_mix.size} labels per '
            f'client, total variation {np.mean(mix.total_variation):.2f} from the global mix'
        )
    tests = reprs.tests_text(problem)
    if tests:
        lines.append(f'tests    {tests}')
    attainable = evaluation.attainable_text(problem)
    if attainable:
        lines.append(f"best     {attainable} (the population's best model, exact)")
    return lines


def _describe_work(plan: Plan) -> list[str]:
    """Describes how many rounds the lanes of this shard take in all."""
    labels = list(plan.algorithms)
    num_rounds = sum(plan.count_rounds(label) for label in labels)
    num_further = sum(plan.max_extra_rounds(label) for label in labels)
    work = ' x '.join(_factors(plan))
    if any(plan.schedule.first_trials(label) for label in labels):
        work += ' and tuning'
    line = f'work     {work}: {num_rounds:,} rounds'
    if num_further:
        line += f', and up to {num_further:,} more as results ask for'
    return [line, *_describe_shard(plan)]


def _describe_shard(plan: Plan) -> list[str]:
    """Describes which lanes the shard of a plan has; empty for a plan with all lanes."""
    if plan.lane_shard is None:
        return []
    lanes = plan.all_lanes_at_first()
    algorithms = ', '.join(dict.fromkeys(lane.algorithm for lane in lanes))
    shard = f'{plan.lane_shard.index} of {plan.lane_shard.count}'
    num_lanes = f'{len(lanes)} of {len(plan.division.lanes):,} lanes'
    return [f'shard    {shard}: {num_lanes} ({algorithms or "none"})']


def _factors(plan: Plan) -> list[str]:
    """Names what is multiplied: algorithms, patterns, points, seeds and rounds."""
    factors = [
        count(len(plan.algorithms), 'algorithm'),
        count(len(plan.patterns), 'pattern'),
    ]
    if len(plan.points) > 1:
        num_lanes = {len(plan.schedule.main(label)) for label in plan.algorithms}
        bound = '' if len(num_lanes) == 1 else 'up to '
        factors.append(f'{bound}{len(plan.points)} points')
    return [*factors, seeds_of(plan), f'{plan.num_rounds:,} rounds']


def describe_recordings(plan: Plan) -> list[str]:
    """Lists the recordings that match the problem's clients by number, as names are missing.

    Args:
      plan: of an experiment; only its first grid point is looked at.

    Returns:
      A line for each pattern with such a recording.
    """
    lines: list[str] = []
    point = plan.points[0]
    for label in plan.patterns:
        names = plan.pattern_at(label, point).client_names
        if names is None:  # no recording
            continue
        if names and plan.problem_at(label, point).client_names:
            continue
        lines.append(
            f'clients  those recorded for {label} are the clients of the data by number, '
            'not by name'
        )
    return lines


def _describe_redraws(plan: Plan) -> list[str]:
    """Says which streams of draws follow the seed, unless they are the default ones."""
    modes = plan.draws.modes()
    if modes == seeding.DEFAULTS:
        return []
    by_seed = [name for name, mode in modes.items() if mode == seeding.BY_SEED]
    fixed = [
        name
        for name, mode in modes.items()
        if mode != seeding.BY_SEED and _has_draws(plan, name)
    ]
    line = f'draws    by seed: {", ".join(by_seed)}'
    if fixed:
        line += f'; fixed: {", ".join(fixed)}'
    return [line]


def _has_draws(plan: Plan, stream: str) -> bool:
    """Returns whether anything draws a stream. Streams without a column are always drawn."""
    column = seeding.COLUMNS.get(stream)
    return column is None or column in plan.data_and_link_columns


def _describe_phases(plan: Plan) -> list[str]:
    """Warns if evaluations fall on only a few rounds of the cycle of a periodic pattern."""
    lines: list[str] = []
    period = plan.eval_every
    for label in plan.patterns:
        cycle = plan.pattern_at(label, plan.points[0]).cycle
        if cycle is None:
            continue
        num_seen = cycle // math.gcd(cycle, period)
        if num_seen < min(cycle, plan.num_rounds // period, _ENOUGH_PHASES):
            lines.append(
                f'warning  {label} repeats every {cycle} rounds: evaluations every {period} '
                f'see {count(num_seen, "round")} of them, {_better_period(plan, cycle)}'
            )
    return lines


def _better_period(plan: Plan, cycle: int) -> str:
    """Says which longer evaluation period sees another round of the cycle each time."""
    coprime = next(
        n for n in itertools.count(plan.eval_every + 1) if math.gcd(n, cycle) == 1
    )
    num_evals = math.ceil(plan.num_rounds / coprime)
    change = f'`eval_every` = {coprime}'
    if num_evals * coprime != plan.num_rounds:
        change += f' and `num_rounds` = {num_evals * coprime}'
    return f'{change} would see {min(cycle, num_evals)}'


def seeds_of(plan: Plan) -> str:
    """Returns ``5 seeds``, ``5 to 50 seeds``."""
    text = count(len(plan.seeds), 'seed')
    if isinstance(plan.seeds, sequential_seeds.UntilDecided):
        return f'{plan.seeds.least} to {text}'
    return text


def count(number: int, word: str) -> str:
    """Returns ``1 seed``, ``2 seeds``."""
    plural = '' if number == 1 else 's'
    return f'{number} {word}{plural}'
