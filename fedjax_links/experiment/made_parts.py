"""The problems and patterns of an experiment, each made once."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedjax_links.base import Problem
from fedjax_links.experiment import families
from fedjax_links.experiment.makers import Maker, Part
from fedjax_links.grids import Point


class Parts:
    """What makers made, by the values of their columns."""

    def __init__(self, every: Sequence[Mapping[str, int]]) -> None:
        """Makes nothing yet.

        Args:
          every: the columns of draws by seed of all lanes that there may be.
        """
        self._every = list(every)
        self._made: dict[Any, Any] = {}
        self._families: dict[int, families.Family] = {}
        self._firsts: dict[int, Problem] = {}

    def made(self, which: tuple[Any, ...], maker: Maker[Part], values: Mapping[str, Any]) -> Part:
        """What a maker makes of values; the same object for the same values."""
        key = (*which, repr(values))
        if key not in self._made:
            self._made[key] = maker.make(**values)
        made: Part = self._made[key]
        return made

    def problem(self, maker: Maker[Problem], point: Point, drawn: Mapping[str, int]) -> Problem:
        """The problem at a point as a seed draws it; those of all seeds are made together."""
        names = [name for name in maker.columns if name in drawn]
        if not names:
            return self._alone(maker, maker.at(point))
        rows = [{name: row[name] for name in names} for row in (drawn, *self._every)]
        at = (
            id(maker),
            repr({k: v for k, v in maker.at({**point, **drawn}).items() if k not in names}),
        )
        if (at, repr(rows[0])) not in self._made:
            wanted = {repr(row): row for row in rows}
            made = [maker.make(**maker.at({**point, **row})) for row in wanted.values()]
            members = [member for family in self._kin(maker, made) for member in family.members]
            self._made |= {(at, key): m for key, m in zip(wanted, members, strict=True)}
        problem: Problem = self._made[at, repr(rows[0])]
        return problem

    def family_of(self, problem: Problem) -> families.Family:
        """The problems that share a program with one that was made here."""
        return self._families[id(problem)]

    def _alone(self, maker: Maker[Problem], values: Mapping[str, Any]) -> Problem:
        """The one problem at a point."""
        key = ('problem', id(maker), repr(values))
        if key not in self._made:
            (family,) = self._kin(maker, [maker.make(**values)])
            self._made[key] = family.members[0]
        problem: Problem = self._made[key]
        return problem

    def _kin(self, maker: Maker[Problem], drawn: Sequence[Problem]) -> list[families.Family]:
        """The families of what a maker made at a point."""
        members = [m for family in families.families(drawn) for m in family.members]
        first = self._firsts.setdefault(id(maker), members[0])
        if first is not members[0]:
            members = families.adopted(first, members)
        found = families.families(members)
        self._families |= {id(member): family for family in found for member in family.members}
        return found
