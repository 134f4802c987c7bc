"""Finds the lanes that a run in one piece (not divided into shards) lacks.

A lane is one algorithm, pattern, grid point and seed. A shard records the names of all lanes. A run
in one piece records only its facts, which do not say which columns of the grid an algorithm or a
pattern takes. The lanes of the algorithm and the pattern say that.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from fedjax_links.core import grids
from fedjax_links.core.records import RunFacts
from fedjax_links.planning import trials
from fedjax_links.results import dataset
from fedjax_links.runs.folder import LaneRecord

_Values = tuple[object, ...]


def of_run_in_one_piece(
    lanes: Sequence[LaneRecord], columns: dataset.Columns, facts: RunFacts
) -> list[str]:
    """Describes the lanes that a run in one piece lacks.

    Args:
      lanes: all lanes in the run's folder.
      columns: the lanes' metrics; they are read only if the run has tuning.
      facts: of the run.

    Returns:
      Texts such as ``fedpbc on links, seed 1``. A near tie of tuning that has a lane needs a lane
      for each seed, as a point of the grid does. Where seeds are added until all comparisons are
      decided, the last seed is not known. Then seeds after the last one present do not count as
      missing.
    """
    missing: list[str] = []
    for algorithm in facts['algorithms']:
        of_algorithm = [lane for lane in lanes if lane.labels['algorithm'] == algorithm]
        if facts['tuning']:
            tried = trials.read_trials(columns, facts, algorithm)
            if not trials.is_done(tried, len(tried)):
                missing.append(f'a part of the tuning of {algorithm}')
        for pattern in facts['patterns']:
            of_pattern = [
                lane for lane in of_algorithm if lane.labels['pattern'] == pattern
            ]
            missing += _missing_at(of_pattern, facts, f'{algorithm} on {pattern}')
    return missing


def _missing_at(
    lanes: Sequence[LaneRecord], facts: RunFacts, where: str
) -> Iterator[str]:
    """Describes the missing lanes of an algorithm under a pattern."""
    main = [lane for lane in lanes if lane.labels['stage'] == dataset.MAIN]
    if not main:
        yield where
        return
    columns = [name for name in facts['grid'] if name in main[0].labels]
    points = grids.points(facts['grid'], facts['grid_mode'])
    expected = [_values(point, columns) for point in grids.project(points, columns)]
    yield from _missing_seeds(main, columns, expected, facts, where)
    ties = [lane for lane in lanes if lane.labels['stage'] == dataset.TIE]
    columns = list(ties[0].point) if ties else []
    expected = [_values(lane.labels, columns) for lane in ties]
    yield from _missing_seeds(ties, columns, expected, facts, f'near ties of {where}')


def _missing_seeds(
    lanes: Sequence[LaneRecord],
    columns: Sequence[str],
    expected: Iterable[_Values],
    facts: RunFacts,
    where: str,
) -> Iterator[str]:
    """Describes the points and seeds of a stage that have no lane."""
    seeds_at: dict[_Values, set[int]] = {values: set() for values in expected}
    for lane in lanes:
        seeds_at.setdefault(_values(lane.labels, columns), set()).add(
            lane.labels['seed']
        )
    for values, present in seeds_at.items():
        point = dataset.describe_point(dict(zip(columns, values, strict=True)))
        for seed in _needed_seeds(present, facts):
            if seed not in present:
                yield ', '.join(part for part in (where, point, f'seed {seed}') if part)


def _needed_seeds(present: Collection[int], facts: RunFacts) -> list[int]:
    """Returns the seeds that an algorithm, pattern and point must have.

    Where seeds are added until all comparisons are decided, these are all seeds up to the last one
    present. They are at least the configured least number of seeds.
    """
    seeds = facts['seeds']
    if 'until' not in facts:
        return seeds
    last = max(
        (index for index, seed in enumerate(seeds) if seed in present), default=0
    )
    return seeds[: max(last + 1, facts['until']['least'])]


def _values(point: grids.Point, columns: Iterable[str]) -> _Values:
    """Returns the values of a point in some columns, in a form that can be compared."""
    return tuple(dataset.as_tuple(point.get(name)) for name in columns)
