"""Decides when a run is saved."""

import time

_TIME_PER_SAVE = 10  # from one save to the next, in times that the first one took


class SaveClock:
    """Says when to save: every few seconds, and for at most a tenth of the time."""

    def __init__(self, seconds: float, num_clocks: int = 1) -> None:
        """Starts the clock.

        Args:
          seconds: least time between the starts of two saves.
          num_clocks: how many clocks share the tenth.
        """
        self._seconds = seconds
        self._time_per_save = _TIME_PER_SAVE * num_clocks
        self._due = time.monotonic() + seconds

    def is_due(self) -> bool:
        """Returns whether it is time to save."""
        return time.monotonic() >= self._due

    def postpone(self, began: float) -> None:
        """Sets the time of the next save, by how long the one took that began then.

        Args:
          began: start of the save that has just ended, in seconds of `time.monotonic`.
        """
        duration = time.monotonic() - began
        self._due = began + max(self._seconds, self._time_per_save * duration)
