"""Decides when a run is saved."""

import time

# The least time between the starts of two saves, in durations of the earlier save.
_LEAST_INTERVAL = 10


class SaveClock:
    """Says when to save: every few seconds, so that saving takes at most a tenth of the time."""

    def __init__(self, seconds: float, num_clocks: int = 1) -> None:
        """Starts the clock.

        Args:
          seconds: least number between the starts of two saves.
          num_clocks: how many clocks share that tenth of the time.
        """
        self._seconds = seconds
        self._least_interval = _LEAST_INTERVAL * num_clocks
        self._due = time.monotonic() + seconds

    def is_due(self) -> bool:
        """Returns whether it is time to save."""
        return time.monotonic() >= self._due

    def postpone(self, began: float) -> None:
        """Sets the time of the next save by the duration of the last one.

        Args:
          began: start of the save that has just ended, in seconds of `time.monotonic`.
        """
        duration = time.monotonic() - began
        self._due = began + max(self._seconds, self._least_interval * duration)
