"""Memory that NVFlare's threads let go of, given back to the system.

Some hundred threads carry a round's messages, and each allocates from one of many heaps of its own. What they free
stays with those heaps: a process would grow for fifty rounds before it settles, by what was never in use at once.

What is given back has to be fetched again, page by page: where a round takes a second, as on the simulator, that would
be a twentieth of a site's work in every one. Rounds of minutes do not feel it.
"""

from __future__ import annotations

import ctypes
import threading
import time

PERIOD = 10.0  # seconds


class Tidy:
    """Gives back what is free, `period` seconds after the last time at the soonest."""

    def __init__(self, period: float = PERIOD) -> None:
        self.period = period
        self._last = time.monotonic()
        self._hand = threading.Lock()

    def __call__(self) -> None:
        with self._hand:
            now = time.monotonic()
            if now - self._last < self.period:
                return
            self._last = now
        give_back()


def give_back() -> None:
    """Return free memory to the system, where the C library (glibc) can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
