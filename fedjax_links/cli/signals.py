"""Stops a run of the command ``simulate`` by a signal."""

import os
import signal
from types import FrameType

from fedjax_links import runs
from fedjax_links.core.records import MetricsRow
from fedjax_links.experiment import Callback, Experiment, Lane, Stop


class StopOnSignal(Callback):
    """Stops the run after SIGINT or SIGTERM, once the running periods are done.

    A period is the rounds up to an evaluation. A SIGINT after either signal ends the process at
    once.

    Attributes:
      received: the number of the signal; None before a signal has come.
    """

    def __init__(self) -> None:
        """Creates the callback, which has received no signal."""
        self.received: int | None = None

    def on_start(self, experiment: Experiment) -> None:
        """Installs the handlers of the signals."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        self._handlers = {
            number: signal.signal(number, self._receive) for number in numbers
        }

    def on_period(self, lane: Lane, record: MetricsRow) -> None:
        """Stops if a signal has come."""
        if self.received is not None:
            raise Stop

    def on_wait(self, text: str) -> None:
        """Stops if a signal has come."""
        if self.received is not None:
            raise Stop

    def on_end(self, results: runs.Results) -> None:
        """Restores the handlers of the signals."""
        for number, handler in self._handlers.items():
            # The handler is None if it was not installed by Python.
            signal.signal(number, handler or signal.SIG_DFL)

    @property
    def exit_status(self) -> int:
        """Returns 130 after SIGINT, 143 after SIGTERM.

        The status is 130 if another process of the run received the signal, and this process stops
        with it.
        """
        return 128 + (self.received or signal.SIGINT)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        """Records a signal; a SIGINT after another signal ends the process at once."""
        if self.received is not None and number == signal.SIGINT:
            os._exit(128 + number)
        self.received = number
        # `print` would fail if the signal came while it writes.
        os.write(2, b'\nstopping after this period; Ctrl-C stops at once\n')
