"""Which lanes of an experiment each of several processes runs."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedjax_links import runs
from fedjax_links.core import checks, errors
from fedjax_links.experiment.plan import makers
from fedjax_links.experiment.plan.deciding import UntilDecided
from fedjax_links.experiment.plan.lanes import Lane

if TYPE_CHECKING:
    from fedjax_links.experiment.definition import Experiment

PROGRAM, SEED = 'program', 'seed'


@dataclasses.dataclass(frozen=True)
class Share:
    """The lanes of one of several processes.

    Attributes:
      index: which, from 0.
      count: how many there are.
      by: what stays together: lanes with one program, so that each process compiles few; or lanes
        of one seed, which all run on one kind of machine.
    """

    index: int
    count: int
    by: str = PROGRAM


def share(index: int, count: int, by: str = PROGRAM) -> Share:
    """The share of one process.

    Args:
      index: from 0 to ``count - 1``, or from 1 to ``count``, which stands for 0.
      count: number of processes.
      by: as in `Share`.

    Raises:
      ValueError: if the numbers are out of range.
    """
    checks.static_int('shard', count)
    checks.static_int('shard', index, minimum=0, maximum=count)
    checks.choice('by', by, (PROGRAM, SEED))
    return Share(index % count, count, by)


def parse(text: str) -> tuple[int, int]:
    """The two numbers of ``3/64``.

    Raises:
      ValueError: if the text is something else.
    """
    index, _, count = text.partition('/')
    if not (index.isdecimal() and count.isdecimal() and int(count) and int(index) <= int(count)):
        requirement = 'read I/N, I from 0 to N - 1 or from 1 to N'
        raise errors.invalid('shard', requirement, text)
    return int(index), int(count)


def divide(experiment: 'Experiment', count: int, by: str = PROGRAM) -> runs.Division:
    """Divides the lanes of an experiment, those of tuning apart.

    In an order that puts lanes with one program (or seed) side by side, each process has a stretch
    with as many rounds as the others, up to a lane.

    Args:
      experiment: the experiment.
      count: number of processes.
      by: as in `Share`.

    Raises:
      ValueError: for seeds until decided by seed.
    """
    plan = experiment.plan
    if by == SEED and isinstance(experiment.seeds, UntilDecided):  # whose shares help each other
        requirement = 'be left out where seeds go on until decided, on machines of one kind'
        raise errors.invalid('allow_mixed', requirement, True)
    found: dict[str, int] = {}
    for lanes_of in plan.tuning_lanes, plan.asked_lanes, plan.possible_lanes:
        lanes = [lane for label in experiment.algorithms for lane in lanes_of(label)]
        more = [lane for lane in lanes if lane.name not in found]
        if lanes_of == plan.possible_lanes:
            optional = [lane.name for lane in more]
        found |= _stretches(more, count) if by == PROGRAM else _by_seed(more, count)
    return runs.Division(count, by, found, optional)


def _stretches(lanes: Sequence[Lane], count: int) -> dict[str, int]:
    order: dict[Any, list[Lane]] = {}
    for lane in lanes:
        built_in = [(k, v) for k, v in lane.point.items() if makers.is_built_in(v)]
        order.setdefault((lane.algorithm, lane.pattern, repr(built_in)), []).append(lane)
    total, behind, found = sum(lane.num_rounds for lane in lanes), 0, {}
    for members in order.values():
        for lane in members:
            found[lane.name] = (2 * behind + lane.num_rounds) * count // (2 * total)
            behind += lane.num_rounds
    return found


def _by_seed(lanes: Sequence[Lane], count: int) -> dict[str, int]:
    seeds = list(dict.fromkeys(lane.seed for lane in lanes))
    return {lane.name: seeds.index(lane.seed) * count // len(seeds) for lane in lanes}
