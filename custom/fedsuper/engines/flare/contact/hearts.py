"""Signs of life: every site's job process sends the server's a small message each second, also while it trains.

NVFlare itself takes ten minutes to notice that a hospital lost its power. A site that takes its leave says so; one that
was killed does not, and that is how it is named when a job ends early.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from nvflare.apis.client_engine_spec import ClientEngineSpec
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.private.fed.simulator.simulator_const import SimulatorConstants

BEAT, GOODBYE = "fedsuper.beat", "fedsuper.goodbye"
PERIOD = 1.0
ALIVE = 5.0  # seconds after its last sign for which a site counts as one that lived just now
STARTING = 90.0  # seconds that a site's process may take until its first sign


def simulated(fl_ctx: FLContext) -> bool:
    """Whether this is the simulator, where every process is watched anyway."""
    return bool(fl_ctx.get_job_id() == SimulatorConstants.JOB_NAME)


class Heart:
    """A site's part: beats until it is stopped, then says goodbye."""

    def __init__(self, engine: ClientEngineSpec) -> None:
        self.engine = engine
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="fedsuper-heart")
        self._thread.start()

    def stop(self) -> None:
        """Take leave of the server."""
        self._stopped.set()
        self._send(GOODBYE)

    def _run(self) -> None:
        while not self._stopped.wait(PERIOD):
            self._send(BEAT)

    def _send(self, topic: str) -> None:
        with self.engine.new_context() as fl_ctx:
            self.engine.fire_and_forget_aux_request(topic, Shareable(), fl_ctx, optional=True)


class Hearts:
    """The server's part: when each site was last heard of. `listening` is false in the simulator."""

    def __init__(self) -> None:
        self.listening = False
        self._began = time.monotonic()
        self._last: dict[str, float] = {}
        self._gone: set[str] = set()

    def hear(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        """NVFlare's handler of both messages."""
        peer = fl_ctx.get_peer_context()
        if peer is not None:
            site = str(peer.get_identity_name())
            self._last[site] = time.monotonic()
            if topic == GOODBYE:
                self._gone.add(site)
        return make_reply(ReturnCode.OK)

    def silence(self, site: str) -> float:
        """For how many seconds others were heard and this site was not; 0 where it still has time for its first sign.

        Where nobody is heard it is the server's own line that is down, and no site is to blame.
        """
        if not self.listening or (site not in self._last and time.monotonic() - self._began < STARTING):
            return 0.0
        return max(self._last.values(), default=self._began) - self._last.get(site, self._began)

    def silent(self, sites: Iterable[str], seconds: float) -> list[str]:
        """Those of the sites that were not heard of for so long."""
        return [site for site in sites if self.silence(site) > seconds]

    def without_goodbye(self, sites: Iterable[str], wait: float) -> list[str]:
        """The sites that lived until now and do not take their leave within `wait` seconds: their processes died."""
        if not self.listening:
            return []
        alive = {site for site in sites if self.silence(site) < ALIVE}
        deadline = time.monotonic() + wait
        while not alive <= self._gone and time.monotonic() < deadline:
            time.sleep(0.1)
        return sorted(alive - self._gone)
