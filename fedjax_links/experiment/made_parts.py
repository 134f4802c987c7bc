"""The problems of an experiment, each made once."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedjax_links.base import Problem
from fedjax_links.experiment import families
from fedjax_links.experiment.makers import Maker
from fedjax_links.grids import Point


class Parts:
    """What makers made, by the values of their columns."""

    def __init__(self, every: Sequence[Mapping[str, int]]) -> None:
        """Makes nothing yet.

        Args:
          every: the columns of draws by seed of all lanes that there may be.
        """
        self._every = list(every)
        self._made: dict[Any, Problem] = {}
        self._families: dict[int, families.Family] = {}
        self._firsts: dict[int, Problem] = {}

    def problem(self, maker: Maker[Problem], point: Point, drawn: Mapping[str, int]) -> Problem:
        """The problem at a point as a seed draws it; those of all seeds are made together."""
        first = id(maker), repr(maker.at({**point, **drawn}))
        if first not in self._made:
            rows = [maker.at({**point, **row}) for row in (drawn, *self._every)]
            wanted = {(id(maker), repr(row)): row for row in rows}
            made = self._kin(maker, [maker.make(**row) for row in wanted.values()])
            self._made |= zip(wanted, made, strict=True)
        return self._made[first]

    def family_of(self, problem: Problem) -> families.Family:
        """The problems that share a program with one that was made here."""
        return self._families[id(problem)]

    def _kin(self, maker: Maker[Problem], drawn: Sequence[Problem]) -> list[Problem]:
        """What a maker made at a point, as members of families."""
        members = [m for family in families.families(drawn) for m in family.members]
        first = self._firsts.setdefault(id(maker), members[0])
        if first is not members[0]:
            members = families.adopted(first, members)
        found = families.families(members)
        self._families |= {id(member): family for family in found for member in family.members}
        return [member for family in found for member in family.members]
