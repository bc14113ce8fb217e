"""The study as the server sees it: describe, rounds, finish, hand over. One loop for every engine and method."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fedsuper.config import Study
from fedsuper.core.state import Models
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.fingerprint import describe_fingerprints
from fedsuper.errors import FedSuperError
from fedsuper.federation import scoring
from fedsuper.federation.checkpoints import Resume, RoundWriter, load_latest
from fedsuper.federation.completion.calibration import Calibration
from fedsuper.federation.completion.shares import Shares
from fedsuper.federation.door.admission import admit
from fedsuper.federation.door.entrance import Entrance
from fedsuper.federation.door.last_replies import SettleReply
from fedsuper.federation.door.replies import DescribeReply
from fedsuper.federation.handshake import Handshake, check_attendance
from fedsuper.federation.ledger.attendance import Attendance
from fedsuper.federation.ledger.round_costs import RoundCost
from fedsuper.federation.ledger.traffic import Traffic
from fedsuper.federation.manifest import add_outcome, build_manifest, manifest_for
from fedsuper.federation.message_schema import CalibrateRequest, DescribeRequest, HandoverRequest, RoundRequest
from fedsuper.federation.messages import CALIBRATE, DESCRIBE, FINISH, SETTLE, TRAIN, Exchange, Message, SiteFailure
from fedsuper.federation.newcomers import Newcomers, joined
from fedsuper.federation.outlet.noise import check_coverage, sums_noise
from fedsuper.federation.precision.downward import going_down
from fedsuper.federation.progress import Progress
from fedsuper.federation.resting import resting
from fedsuper.files import owned
from fedsuper.methods import create_method
from fedsuper.methods.protocol.phases import round_is_due
from fedsuper.methods.protocol.server import Server

RUNNING = 3  # refusals in a row after which a site is reported


class PausedError(Exception):
    """The study was asked to end after a round, to be started again from its checkpoint."""


class Federation:
    """Drives one study over an `Exchange`; knows neither nvflare nor where the sites are.

    `pausing` tells that the study is to end after the present round; `patience` is how many seconds an owner of its
    folder that is about to end may take, `room` how many a full disk.
    """

    def __init__(self, study: Study, exchange: Exchange, folder: Path, progress: Progress,
                 pausing: Callable[[], bool] = lambda: False, patience: float = 0.0, room: float = 0.0) -> None:
        self.study = study
        self.exchange = exchange
        self.folder = Path(folder)
        self.progress = progress
        self.method = create_method(study)
        self.newcomers = Newcomers(study, self.method, progress.note)
        self.server: Server | None = None
        self.entrance: Entrance | None = None
        self.pausing = pausing
        self.patience = patience
        self.room = room
        self.attendance = Attendance(progress.note)
        self.traffic = Traffic()
        self._warned: set[str] = set()
        self._left: set[str] = set()

    def run(self, resume: bool | Resume = False) -> SuperModel:
        """The whole study; with `resume`, from the last complete round in `folder` or from the one it names.

        Sites that left are asked no more; what they gave so far stays. The folder has one owner at a time.
        """
        going = Resume.of(resume)
        with owned(self.folder, "a run", self.patience), resting(self.study.federation, self.folder, self.exchange):
            server = load_latest(self.folder, self.study, going.from_round) if going else None
            self.traffic = Traffic.from_json(server.values.get("traffic", {}) if server else {})
            if going and server is None:
                self.progress.note("nothing to resume yet: the run was ended before its first round was; starting anew")
            described = self._describe(server, going.without if going else ())
            self.server = server = server or self._start(described)
            check_coverage(self.study, server.task)
            server.values["left"] = sorted(self._left)
            self.entrance = Entrance(self.study, self.method, server, described, self._refused)
            self._warn(self._asked(server))
            with RoundWriter(self.folder, self.room, self.progress.note) as writer:
                while round_is_due(server, self.method.phases()):
                    if self._round(server):
                        writer.save(server)
                        if self.pausing() and round_is_due(server, self.method.phases()):
                            raise PausedError
            return self._hand_over(server, self.entrance)

    # --- before round 1 -------------------------------------------------------------------------------------------

    def _describe(self, server: Server | None, without: Sequence[str]) -> dict[str, DescribeReply]:
        sites = server.sites if server else sorted(self.exchange.sites)
        unknown = sorted(set(without) - set(sites))
        if unknown:
            raise FedSuperError(f"--without {unknown[0]}: there is no such site; the study has {', '.join(sites)}")
        left = {*without, *(server.values.get("left", []) if server else [])}
        asked = [site for site in sites if site not in left]
        check_attendance(self.study, asked)
        request = DescribeRequest(study=self.study.to_json(), resume=server is not None)
        handshake = Handshake(self.study, server, self.method.pooled)
        described = handshake.shake(self._ask(DESCRIBE, {site: request.message() for site in asked}))
        self._left = left | set(handshake.dropped)
        prints = {site: told.fingerprint.model_dump() for site, told in described.items()}
        for line in describe_fingerprints(prints).splitlines() + handshake.notes():
            self.progress.note(line)
        return described

    def _start(self, described: dict[str, DescribeReply]) -> Server:
        sites = sorted(described)
        server = Server(
            study=self.study,
            task=Handshake.task_of(described),
            sites=sites,
            samples={site: described[site].samples["train"] for site in sites},
            values={"described": {site: told.model_dump() for site, told in described.items()}},
        )
        server.models = self.method.start(server)
        return server

    # --- one round ------------------------------------------------------------------------------------------------

    def _round(self, server: Server) -> bool:
        """One round; whether a checkpoint may be taken after it."""
        assert self.entrance is not None
        started, before = time.monotonic(), self.traffic.copy()
        self._welcome(server, self.entrance)
        method = self.method.during(server.phase)
        sent, packed = going_down(server, self.method, self._asked(server))
        with self.entrance.expecting(sent, self.exchange):
            replies = self._ask(TRAIN, {site: self._request(server, site).message(packed[site]) for site in packed})
        updates = self.entrance.updates(method, replies, sent)
        self._warn(list(updates))
        metrics = {site: update.metrics for site, update in updates.items()}
        scoring.note_scores(server, self.method.roles(), metrics, sent)
        collapse = scoring.collapsed(server, self.method.roles(), metrics)
        server.models |= self.entrance.aggregate(method, updates)
        server.samples |= {site: update.samples for site, update in updates.items()}
        server.round += 1
        server.accepted |= dict.fromkeys(updates, server.round)
        server.values.setdefault("refusals", {}).update(dict.fromkeys(updates, 0))
        scoring.record(server, server.round, metrics)
        server.values["traffic"] = self.traffic.to_json()
        cost = RoundCost(self.traffic.since(before), time.monotonic() - started)
        self.progress.attendance(list(updates), self.attendance.away)
        self.progress.round(server.round, scoring.summary(server, len(updates)), cost)
        if collapse:
            self.progress.note(f"warning: {collapse}")
        return collapse is None

    def _refused(self, site: str, reason: str) -> None:
        """Name a site whose answer was not let in, and report one that is refused round after round."""
        self.progress.note(f"warning: {site}: {reason}")
        if self.server is not None:
            refusals = self.server.values.setdefault("refusals", {})
            refusals[site] = refusals.get(site, 0) + 1
            if refusals[site] >= RUNNING and refusals[site] % RUNNING == 0:
                self.progress.note(f"warning: {site}: refused {refusals[site]} times running; call the site, or leave "
                                   f"it out with --resume --without {site}")

    def _welcome(self, server: Server, entrance: Entrance) -> None:
        """Let those in who were away when this run began, or are new: they describe themselves first, as all did."""
        arrived = self.newcomers.arrived(server, self.exchange.sites, {*entrance.described, *self._left})
        if arrived:
            study, handshake = self.study.to_json(), Handshake(self.study, server, self.method.pooled)
            asked = {site: DescribeRequest(study=study, resume=known).message() for site, known in arrived.items()}
            described = handshake.welcome(self._ask(DESCRIBE, asked), self._refused)
            self.newcomers.join(server, described)
            entrance.described |= described

    def _asked(self, server: Server) -> list[str]:
        """The sites that take part now: they fit and have not left for good."""
        assert self.entrance is not None
        return [site for site in server.sites if site in self.entrance.described and site not in self._left]

    def _warn(self, sites: list[str]) -> None:
        """What the method has to say of its knobs for these sites; attendance may change it, each line comes once."""
        for warning in self.method.check(sites):
            if warning not in self._warned:
                self.progress.note(f"warning: {warning}")
                self._warned.add(warning)

    def _request(self, server: Server, site: str) -> RoundRequest:
        return RoundRequest(
            study=self.study.to_json(), label=server.label(site), sites=server.sites, round=server.round,
            phase=server.phase, accepted=server.accepted.get(site, 0), task=server.task.to_json(),
        )

    def _ask(self, task: str, messages: dict[str, Message]) -> dict[str, Message | SiteFailure]:
        asked = {site: messages[site] for site in self.attendance.asked(messages)}
        self.traffic.check(asked, self.study.federation.traffic_budget)
        replies = self.exchange(task, asked, self.study.federation.round_timeout)
        for site in asked:
            replies.setdefault(site, SiteFailure("no answer", absent=True))
            self.traffic.sent(site, asked[site])
            self.traffic.came(site, replies[site])
        self.attendance.heard({site: replies[site] for site in asked})
        return {site: replies[site] if site in asked else self.attendance.skipped(site) for site in messages}

    # --- after the last round -------------------------------------------------------------------------------------

    def _hand_over(self, server: Server, entrance: Entrance) -> SuperModel:
        sent, packed = going_down(server, self.method, self._asked(server))
        replies = self._ask(FINISH, {site: self._request(server, site).message(packed[site]) for site in packed})

        def absent(site: str, reason: str) -> None:
            self.progress.note(f"warning: {site}: did not take part in the last validation ({reason})")

        answers = admit(replies, entrance.finished, absent)
        metrics = {site: told.metrics for site, (told, _) in answers.items()}
        scoring.note_scores(server, self.method.roles(), metrics, sent)
        scoring.record(server, server.round + 1, metrics)
        for site, (_, models) in answers.items():
            for role in self.method.roles():
                if role.name in models:
                    server.best_models[role.key(site)] = models[role.name]
        super_model = self.method.super_model(server)
        super_model.manifest = build_manifest(server, super_model, self.method) | joined(server) | super_model.manifest
        return self._settle(server, super_model, entrance)

    def _settle(self, server: Server, super_model: SuperModel, entrance: Entrance) -> SuperModel:
        """Give every site its share of the models, complete the set by what they measure, collect test scores."""
        shares = Shares(super_model, self.study.federation.handover)

        def tell(task: str, now: SuperModel, models: Callable[[str], Models], wanted: str = "") -> Mapping[str, Any]:
            kind, more = (CalibrateRequest, {"wanted": wanted}) if task == CALIBRATE else (HandoverRequest, {})
            parts = {site: models(site) for site in self._asked(server)}  # first: it says what is elsewhere after it
            known = {site: manifest_for(site, now.manifest, shares.elsewhere(site)) for site in parts}
            replies = self._ask(task, {site: kind(**dict(self._request(server, site)), manifest=known[site], **more)
                                       .message(parts[site]) for site in parts})
            return admit(replies, partial(entrance.settled, task, shares.experts), self._refused)

        selector = self.study.selector.model_copy(update={"noise": sums_noise(self.study)})
        complete = Calibration(selector, shares, tell, self.method.settle, self.progress.note).run(super_model)
        scored: Mapping[str, SettleReply] = tell(SETTLE, complete, lambda _: {})
        add_outcome(complete.manifest, server, {site: reply.scores for site, reply in scored.items()})
        complete.manifest["traffic"] = self.traffic.to_json()
        return complete

