"""Names the files of a lane, which is one algorithm, pattern, grid point and seed."""

import re

_SERIES_SEPARATOR = re.compile(r'(?<=.)-(?=\d{4,}-.+-\d+$)')
"""Matches the hyphen before a possible series index in the name of a lane."""


def lane_name(stage: str, algorithm: str, pattern: str, series: int, seed: int) -> str:
    """Returns the name of a lane's files, which no other lane has.

    Args:
      stage: ``'tuning'``, ``'main'`` or ``'tie'``.
      algorithm: label.
      pattern: label.
      series: the index of the lane's series among all series of this algorithm and stage. A series
        is the lanes that differ in seed alone.
      seed: of the lane.
    """
    name = f'{algorithm}-{series:04d}-{pattern}-{seed}'
    # A label such as `x-0000` could pass for the label `x` and a series index.
    if len(_SERIES_SEPARATOR.findall(name)) > 1:
        algorithm = _without_series(algorithm)
        pattern = _without_series(pattern)
        name = f'{algorithm}-{series:04d}-{pattern}-{seed}'
    return f'{stage}-{name}'


def _without_series(label: str) -> str:
    """Marks each part of a label that reads like a series index with two dots."""
    return re.sub(r'-(?=\d{4,}-)', '-..', f'-{label}-')[1:-1]
