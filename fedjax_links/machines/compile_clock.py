"""Counts the seconds in which XLA compiles programs that JAX's cache does not have yet."""

import threading
from types import TracebackType
from typing import Self

import jax.monitoring

_REQUEST = '/jax/compilation_cache/compile_requests_use_cache'
_HIT = '/jax/compilation_cache/cache_hits'
_COMPILED = '/jax/core/compile/backend_compile_duration'


class CompileClock:
    """Counts compile seconds while its context is open.

    A later process finds the programs in the cache, so it does not spend these seconds again.

    Attributes:
      seconds: sum over all threads.
    """

    def __init__(self) -> None:
        """Creates the clock, at zero seconds."""
        self.seconds = 0.0
        self._thread = threading.local()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Begins to count."""
        jax.monitoring.register_event_listener(self._note_event)
        jax.monitoring.register_event_duration_secs_listener(self._note_duration)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops counting."""
        jax.monitoring.unregister_event_listener(self._note_event)
        jax.monitoring.unregister_event_duration_listener(self._note_duration)

    def _note_event(self, event: str, **kwargs: str | int) -> None:
        """Notes whether this thread compiles a program that the cache does not have."""
        if event == _REQUEST:
            self._thread.is_missing = True
        elif event == _HIT:
            self._thread.is_missing = False

    def _note_duration(
        self, event: str, duration_secs: float, **kwargs: str | int
    ) -> None:
        """Adds the seconds of a compilation."""
        if event != _COMPILED:
            return
        if getattr(self._thread, 'is_missing', False):
            with self._lock:
                self.seconds += duration_secs
        self._thread.is_missing = False
