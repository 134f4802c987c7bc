"""Estimates the time of a report from a few lanes (simulations), before the run starts."""

import contextlib
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from fedjax_links.experiment import Experiment, Lane
from fedjax_links.machines.compile_clock import CompileClock


class ReportTimer:
    """Times the measuring of clients and the writing of pages, as `report.write` does both.

    Attributes:
      seconds: seconds of measurements so far, without compiling.
      compiling: seconds of compiling for these measurements.
    """

    def __init__(self, experiment: Experiment, clock: CompileClock) -> None:
        """Times nothing yet.

        Args:
          experiment: what would run.
          clock: a running clock of compilations.
        """
        self._experiment = experiment
        self._clock = clock
        self.seconds = 0.0
        self.compiling = 0.0

    def time_clients(self, folder: Path, lanes: Sequence[Lane]) -> None:
        """Adds the seconds that measuring the clients at the models of an algorithm takes.

        Args:
          folder: where short lanes of the algorithm have their last states.
          lanes: these short lanes.
        """
        plan = self._experiment.plan
        lane = lanes[0]
        compiled_before = self._clock.seconds
        num_patterns = len(plan.patterns)
        # With seeds until decided, only the lanes that are sure to run count.
        main = plan.schedule.first_main(lane.algorithm)
        num_lanes = len({(other.pattern, other.seed) for other in main})
        # The first call also compiles.
        first = self._measure(folder, lane, losses=False)
        again = self._measure(folder, lane, losses=False)
        self.seconds += first + (num_lanes - 1) * again
        first = self._measure(folder, lane, losses=True)
        again = self._measure(folder, lane, losses=True)
        self.seconds += first + (num_patterns - 1) * again
        compiling = self._clock.seconds - compiled_before
        self.seconds -= compiling
        self.compiling += compiling

    def _measure(self, folder: Path, lane: Lane, *, losses: bool) -> float:
        """Returns the seconds to measure one lane; 0 if it has nothing to be measured."""
        from fedjax_links.report import client_stats
        from fedjax_links.runner import client_measurements

        began = time.perf_counter()
        with contextlib.suppress(client_measurements.MissingError):
            if losses:
                client_stats.losses_of(self._experiment, folder, lane)
            else:
                plan = self._experiment.plan
                client_measurements.measure_lanes(plan, folder, [lane])
        return time.perf_counter() - began

    def time_report(self) -> tuple[float, float]:
        """Writes the pages of a run that measured zero.

        Returns:
          Seconds of the report, with its measurements; and the seconds of compiling, which come on
          top.
        """
        began = time.perf_counter()
        # Modules that read results are imported here, as a run imports them after its start.
        from fedjax_links.report import blank_view, layouts

        view = blank_view.blank(self._experiment)
        pages = layouts.build(view, self._experiment.reports or layouts.default(view))
        layouts.text(pages)
        with tempfile.TemporaryDirectory() as folder:
            layouts.write(Path(folder), view, pages, [])
        return self.seconds + time.perf_counter() - began, self.compiling
