"""Draws the links of lanes that run together, some periods at a time."""

from collections.abc import Sequence

import jax

from fedjax_links.base import Links, PyTree
from fedjax_links.planning import problem_families
from fedjax_links.runner.compilation import LinkProgram, TracedPattern
from fedjax_links.runner.program_cache import Programs


class LinkDraws:
    """Draws the links of lanes whose patterns have one structure.

    Attributes:
      lanes: their indices in the batch.
      carry: of their patterns, after the rounds that were drawn.
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
          programs: cache of the program that draws.
          lanes: their indices.
          patterns: of these lanes.
          keys: of their links, stacked as the program takes them.
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
        """Puts what is drawn from on a device."""
        self._keys, self._constants = jax.device_put(
            (self._keys, self._constants), device
        )

    def start(self) -> None:
        """Begins before the first round."""
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
