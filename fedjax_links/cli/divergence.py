"""Says at once which simulation is not finite any more; the others go on."""

import sys
from collections.abc import Mapping
from typing import Any

from tqdm import tqdm

from fedjax_links.experiment import Callback, Experiment, Lane


class Divergence(Callback):
    """One line on stderr per lane, above the progress line where there is one."""

    def on_start(self, experiment: Experiment) -> None:
        """Nothing was said yet."""
        self._said: set[str] = set()

    def on_period(self, lane: Lane, record: Mapping[str, Any]) -> None:
        """Tells of a lane's first value that is not finite."""
        if record.get('finite', True) or lane.name in self._said:
            return
        self._said.add(lane.name)
        round = int(record['first_bad_round'])
        line = f'not finite from round {round} on (of 0 to {lane.num_rounds - 1})'
        hint = f'--debug_round={round} looks into it'
        tqdm.write(f'{lane.description}: {line}; {hint}', file=sys.stderr)
