"""The problems and patterns of an experiment, each made once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedjax_links.base import Problem
from fedjax_links.experiment import redraws
from fedjax_links.experiment.points import Maker, Part, Point


class Parts:
    """What makers made, by the values of their columns."""

    def __init__(self, draws: Callable[[int | None], Mapping[str, int]], seeds: Sequence[int]):
        """Makes nothing yet.

        Args:
          draws: ``seed -> columns`` of the streams that are drawn by seed; of the first for None.
          seeds: all that lanes may have, the first first.
        """
        self._draws, self._seeds = draws, [int(seed) for seed in seeds]
        self._made: dict[Any, Any] = {}
        self._families: dict[int, redraws.Family] = {}

    def made(self, which: tuple[Any, ...], maker: Maker[Part], values: Mapping[str, Any]) -> Part:
        """What a maker makes of values; the same object for the same values."""
        key = (*which, repr(values))
        if key not in self._made:
            self._made[key] = maker.make(**values)
        made: Part = self._made[key]
        return made

    def problem(self, maker: Maker[Problem], point: Point, seed: int | None) -> Problem:
        """The problem at a point as a seed draws it; those of all seeds are made together."""
        columns = {name for name in maker.columns if name in self._draws(None)}
        if not columns:
            return self.made(('problem', id(maker)), maker, maker.at(point))
        seed = self._seeds[0] if seed is None else int(seed)
        values = maker.at({**point, **self._draws(None)})
        at = id(maker), repr({name: v for name, v in values.items() if name not in columns})
        if (at, seed) not in self._made:
            seeds = list(dict.fromkeys([*self._seeds, seed]))
            drawn = [maker.make(**maker.at({**point, **self._draws(s)})) for s in seeds]
            members = [m for family in self._kin(drawn) for m in family.members]
            self._made |= {(at, s): m for s, m in zip(seeds, members, strict=True)}
        problem: Problem = self._made[at, seed]
        return problem

    def family_of(self, problem: Problem) -> redraws.Family:
        """The problems that share a program with one that was made here."""
        if id(problem) not in self._families:
            self._kin([problem])
        return self._families[id(problem)]

    def _kin(self, drawn: Sequence[Problem]) -> list[redraws.Family]:
        found = redraws.families(drawn)
        self._families |= {id(member): family for family in found for member in family.members}
        return found
