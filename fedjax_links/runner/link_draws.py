"""Draws the links of lanes that run together, some periods at a time.

A lane is one simulation (`planning.lanes.Lane`). A period is the rounds up to an evaluation.
"""

from collections.abc import Sequence

import jax

from fedjax_links.base import Links, PyTree
from fedjax_links.planning import problem_families
from fedjax_links.runner.compilation import LinkProgram, TracedPattern
from fedjax_links.runner.program_cache import Programs


class LinkDraws:
    """Draws the links of lanes whose patterns have the same `TracedPattern.structure`.

    Attributes:
      lanes: the lanes' indices in their `lane_batch.LaneBatch`.
      carry: the carry of the lanes' patterns after the rounds drawn so far.
    """

    def __init__(
        self,
        programs: Programs,
        lanes: Sequence[int],
        patterns: Sequence[TracedPattern],
        keys: PyTree,
    ) -> None:
        """Draws nothing yet.

        Args:
          programs: the programs of the plan.
          lanes: the lanes' indices in their batch.
          patterns: the lanes' patterns.
          keys: the random keys of the lanes' links, stacked as the program takes them.
        """
        self.lanes = lanes
        constants = [pattern.constants for pattern in patterns]
        varying = problem_families.varying_leaves(constants)
        self._program: LinkProgram = programs.link_program(patterns[0], varying)
        self._constants = constants[0]
        if any(varying):
            self._constants = problem_families.stack_varying(constants)
        self._keys = keys
        self.carry: PyTree = None

    def put_inputs(self, device: jax.Device) -> None:
        """Puts the keys and the patterns' arrays on a device."""
        self._keys, self._constants = jax.device_put(
            (self._keys, self._constants), device
        )

    def start(self) -> None:
        """Sets the carry to that before the first round."""
        self.carry = self._program.start(self._constants, self._keys)

    def draw(
        self, first_round: jax.Array, num_periods: jax.Array, max_periods: int
    ) -> Links:
        """Draws the links of some periods."""
        self.carry, links = self._program.draw(
            self._constants,
            self.carry,
            self._keys,
            first_round,
            num_periods,
            max_periods=max_periods,
        )
        return links
