"""Bells for sites that wait for work: the server rings a site's own when a task for it is up.

NVFlare's sites ask, are told that there is nothing yet, and sleep before they ask again; every round then begins with a
nap. Where the server's process may keep a question open, it answers the moment there is something to say, and looks
for a task only for the site that has one.
"""

from __future__ import annotations

import threading
from collections import Counter


class Doorbell:
    """Counts its rings by site, so that one between a look and the wait for the next is not missed."""

    def __init__(self) -> None:
        self._rings: Counter[str] = Counter()
        self._everybody = 0
        self._rung = threading.Condition()

    def rings(self, site: str) -> int:
        """How often it rang for this site so far."""
        return self._rings[site] + self._everybody

    def ring(self, site: str | None = None) -> None:
        """Wake the site, or everybody."""
        with self._rung:
            if site is None:
                self._everybody += 1
            else:
                self._rings[site] += 1
            self._rung.notify_all()

    def wait(self, site: str, heard: int, seconds: float) -> bool:
        """Until there were more rings than `heard` for the site, `seconds` at most; whether there were."""
        with self._rung:
            return self._rung.wait_for(lambda: self.rings(site) > heard, max(seconds, 0.0))


WORK = Doorbell()  # of the server in this process
