"""Names the records of plain values that configs, plans and run folders pass on.

Values of a record are what JSON holds: None, flags, numbers, texts, lists and further records. A
lane is one simulation of a run, see `planning.lanes.Lane`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

Section: TypeAlias = Mapping[str, Any]
"""A config or a section of one: values and further sections by field."""
RunFacts: TypeAlias = Mapping[str, Any]
"""What ``experiment.json`` says of a run, as `planning.plan.Plan.facts` lists it.

Labels of algorithms and patterns, candidate models, metrics and their directions, grid, tuning,
seeds and numbers of rounds: all that reports need.
"""
LaneLabels: TypeAlias = Mapping[str, Any]
"""What identifies a lane: ``stage``, ``algorithm``, ``pattern``, ``seed``, values of its point."""
MetricsRow: TypeAlias = Mapping[str, Any]
"""What one evaluation of a lane measured: ``round``, and a number by metric."""


class LaneMetadata(TypedDict):
    """Holds what a store records about a lane.

    Attributes:
      labels: what identifies the lane, with its stage.
      position: the indices of the lane's series and of its seed.
      num_rounds: the lane's length.
    """

    labels: LaneLabels
    position: Sequence[int]
    num_rounds: int
