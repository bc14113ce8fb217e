"""A bell for sites that wait for work: the server rings it when tasks are up.

NVFlare's sites ask, are told that there is nothing yet, and sleep before they ask again; every round then begins with a
nap. Where the server's process may keep a question open, it answers the moment there is something to say.
"""

from __future__ import annotations

import threading


class Doorbell:
    """Counts its rings, so that one between a look and the wait for the next is not missed."""

    def __init__(self) -> None:
        self.rings = 0
        self._rung = threading.Condition()

    def ring(self) -> None:
        """Wake whoever waits."""
        with self._rung:
            self.rings += 1
            self._rung.notify_all()

    def wait(self, heard: int, seconds: float) -> bool:
        """Until there were more rings than `heard`, `seconds` at most; whether there were."""
        with self._rung:
            return self._rung.wait_for(lambda: self.rings > heard, max(seconds, 0.0))


WORK = Doorbell()  # of the server in this process
