"""How an experiment tunes its algorithms."""

import dataclasses

from fedjax_links.core.grids import Columns
from fedjax_links.experiment.plan.choosing import BEST

FIRST_TUNING_SEED = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tuning:
    """How the values that suit each algorithm are found before the experiment proper.

    Attributes:
      grid: columns to try, values by name, none of them in the experiment's own grid; each
        algorithm tries the combinations of those that its maker takes, at every point of that grid
        as far as it concerns the algorithm, or the problem and the links that it is tuned on.
      num_rounds: rounds of each try, a multiple of ``eval_every``, at most the experiment's.
      num_seeds: seeds of each try, from 10,000 on, so none of the experiment's.
      pattern: label of the links to tune on; the first by default.
      model: candidate model whose last evaluation decides: a name such as ``'server'``, or
        ``'best'`` for whichever is ahead.
    """

    grid: Columns
    num_rounds: int
    num_seeds: int = 1
    pattern: str | None = None
    model: str = BEST

    @property
    def seeds(self) -> range:
        """The seeds of every try."""
        return range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + self.num_seeds)
