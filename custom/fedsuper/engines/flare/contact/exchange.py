"""The server's way to its sites through NVFlare's task protocol."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType

from fedsuper.engines.flare.contact.doorbell import WORK
from fedsuper.engines.flare.contact.hearts import Hearts
from fedsuper.engines.flare.contact.memory import Tidy
from fedsuper.engines.flare.settings import GONE, from_environment
from fedsuper.engines.flare.wire import ENVELOPE, pack, unpack, weight
from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import TRAIN, Heard, Message, Rest, SiteFailure, as_it_is, unheard

if TYPE_CHECKING:
    from nvflare.app_common.workflows.model_controller import ModelController

CHECK_PERIOD = 0.1
AWAY_AFTER = 60.0  # seconds without a sign of life after which a site is not waited for
LONGEST_ENVELOPE = 4_000_000  # of a site's answer, before it is parsed


class AbortedError(Exception):
    """NVFlare ended the job while the server was waiting for its sites."""


class FlareExchange:
    """One task per site and call: only so does each site get its own models in the same round.

    Who took longest the time before is asked first: the others are done before it either way. Answers are read while
    the rest are waited for.

    Where sites share a machine, as many as it can serve work `abreast`, and the next is asked when one is done: more at
    a time only take turns, and the largest is left to itself at the end. A site's time counts from when it is asked;
    whoever was not asked in the first half of it is asked then, so that a call takes one and a half times as long at
    most.
    """

    def __init__(self, controller: ModelController, hearts: Hearts | None = None, away: float = AWAY_AFTER,
                 places: int | None = None) -> None:
        self.controller = controller
        self.hearts = hearts or Hearts()
        self.away = away
        self.abreast = places + 1 if places else sys.maxsize  # one has its task and waits for a place
        self.rest: Rest = as_it_is
        self.heard: Heard = unheard
        self._took: dict[str, float] = {}  # least seconds in a round: what it waited for a place is not its own work
        self._tidy = Tidy()

    @property
    def sites(self) -> list[str]:
        return [client.name for client in self.controller.engine.get_clients() if self._connected(client.name)]

    def __call__(self, task: str, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | SiteFailure]:
        answers: dict[str, Message | SiteFailure] = {}
        news = threading.Event()

        def answered(model: FLModel) -> None:
            site = model.meta["client_name"]
            if site not in answers:  # an answer that is repeated counts once
                model.params = self.rest(model.params or {})
                answer = _read(model)
                self.heard(site, answer)
                answers[site], took[site] = answer, time.monotonic() - asked[site]
                news.set()

        def ask(site: str) -> None:
            model = pack(messages[site], messages[site].info.get("round"))
            messages[site].carried = weight(model)
            asked[site] = time.monotonic()
            self.controller.send_model(task, model, targets=[site], timeout=math.ceil(timeout), callback=answered)
            WORK.ring(site)

        if task == TRAIN:
            self._announce(AppEventType.ROUND_STARTED, messages)
        self._tidy()  # of the tasks before
        reachable = set(self.sites)
        waiting = sorted((site for site in messages if site in reachable), key=self._turn)
        asked: dict[str, float] = {}  # and when
        took: dict[str, float] = {}
        half = time.monotonic() + timeout / 2
        while True:
            while waiting and (self._at_work(asked, answers) < self.abreast or time.monotonic() > half):
                ask(waiting.pop(0))
            if len(answers) == len(asked) and not waiting:
                break
            if not news.wait(CHECK_PERIOD):
                if self.controller.abort_signal.triggered:
                    raise AbortedError
                if not waiting and not self._at_work(asked, answers):
                    self.controller.cancel_all_tasks()  # nobody is left to wait for
                    break
            news.clear()
        if task == TRAIN:
            self._took |= {site: min(seconds, self._took.get(site, math.inf)) for site, seconds in took.items()}
            self._announce(AppEventType.ROUND_DONE, messages)
        now = time.monotonic()
        return {
            site: answers[site] if site in answers else
            self._silence(site, site in reachable, now - asked.get(site, now) >= timeout, timeout)
            for site in messages
        }

    def _at_work(self, asked: Mapping[str, float], answers: Mapping[str, object]) -> int:
        """How many of those that were asked may still answer: NVFlare waits for them, and they are there."""
        open_ = sum(site not in answers and self._connected(site) for site in asked)
        return min(open_, int(self.controller.get_num_standing_tasks()))

    def _turn(self, site: str) -> float:
        """Its place in the order of asking: who never answered, then the slowest, ..., the quickest."""
        return -self._took.get(site, math.inf)

    def _announce(self, event: str, messages: Mapping[str, Message]) -> None:
        """Tell NVFlare's widgets where the study is."""
        with self.controller.engine.new_context() as context:
            number = next(iter(messages.values())).info["round"]
            context.set_prop(AppConstants.CURRENT_ROUND, number, private=True, sticky=True)
            self.controller.fire_event(event, context)

    def _connected(self, site: str) -> bool:
        known = self.controller.get_client_disconnect_time(site) is None and site not in _known_dead()
        return known and self.hearts.silence(site) <= self.away

    def _silence(self, site: str, reached: bool, overdue: bool, timeout: float) -> SiteFailure:
        """Why a site gave no answer."""
        silence = self.hearts.silence(site)
        if silence > self.away:
            return SiteFailure(f"it is not connected: no sign of life for {silence:.0f} s", absent=True)
        if not reached or not self._connected(site):
            return SiteFailure("it is not connected", absent=True)
        if overdue:
            return SiteFailure(f"no answer within {timeout:g} s", absent=True, late=True)
        return SiteFailure("its answer was refused on the way; see the site's log")


def _known_dead() -> list[str]:
    """Sites whose process died in the simulator, which itself would let the server wait for them."""
    path = from_environment(GONE)
    return path.read_text(encoding="utf-8").split() if path and path.exists() else []


def _read(model: FLModel) -> Message | SiteFailure:
    try:
        if len(model.meta[ENVELOPE]) > LONGEST_ENVELOPE:
            return SiteFailure(f"its answer's plain part is longer than {LONGEST_ENVELOPE} letters")
        return unpack(model)
    except FedSuperError as problem:
        return SiteFailure(str(problem))
    except Exception as error:  # one site's nonsense, of whatever kind, must not end the study
        return SiteFailure(f"its answer cannot be read ({type(error).__name__}: {str(error)[:200]})")
