"""The door of a training: what each task's answers must be, for this study, this round and this site."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fedsuper.config import Study
from fedsuper.core.robust import distance
from fedsuper.core.state import Models, check_finite
from fedsuper.errors import FedSuperError
from fedsuper.federation.door.admission import admit
from fedsuper.federation.door.arrivals import Read, Reading
from fedsuper.federation.door.last_replies import CalibrateReply, HandoverReply, SettleReply
from fedsuper.federation.door.norms import by_role, remember, shortened, too_long
from fedsuper.federation.door.replies import DescribeReply, FinishReply, Known, RoundReply
from fedsuper.federation.door.tensors import check_models, check_sums
from fedsuper.federation.message_schema import opened
from fedsuper.federation.messages import CALIBRATE, FINISH, HANDOVER, TRAIN, Exchange, Message, SiteFailure, unheard
from fedsuper.federation.outlet.declared import QUALITY, SUMS, declared_models
from fedsuper.federation.outlet.noise import sums_noise
from fedsuper.methods.protocol.method import Method
from fedsuper.methods.protocol.server import Server, Update


class Entrance:
    """`refused` hears of every answer that is not let in. `described` is what the sites told before the first round."""

    def __init__(
        self,
        study: Study,
        method: Method[Any],
        server: Server,
        described: Mapping[str, DescribeReply],
        refused: Callable[[str, str], None],
    ) -> None:
        self.study = study
        self.method = method
        self.server = server
        self.described = dict(described)
        self.refused = refused
        self._first_problem: str | None = None
        self._reading: Reading | None = None

    def known(self, site: str, experts: frozenset[str] = frozenset()) -> Known:
        """What an answer of this site is compared with now."""
        told = self.described[site]
        return Known(
            site=site,
            round=self.server.round,
            samples=told.samples,
            roles=frozenset(role.name for role in self.method.roles()),
            regions=frozenset(self.server.task.regions),
            folders=frozenset(told.splits),
            experts=experts,
            calibration=self.method.Calibration,
        )

    # --- rounds ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def expecting(self, sent: Mapping[str, Models], exchange: Exchange) -> Iterator[None]:
        """Within it a round's answers are looked at as they come through `exchange`, before `updates` asks for them."""
        self._reading = self._begin(sent)
        exchange.heard = self._reading.look
        try:
            yield
        finally:
            exchange.heard = unheard

    def _begin(self, sent: Mapping[str, Models]) -> Reading:
        declared = {site: declared_models(TRAIN, self.method, self.server, site, models)
                    for site, models in sent.items()}
        return Reading(sent, declared, self.study.wire, self.known)

    def updates(
        self, method: Method[Any], replies: Mapping[str, Message | SiteFailure], sent: Mapping[str, Models]
    ) -> dict[str, Update]:
        """The usable updates in label order; a failed or refused one costs its site the round, nobody else."""
        self._first_problem = None
        reading = self._reading if self._reading and self._reading.sent is sent else self._begin(sent)
        declared, self._reading = reading.declared, None
        found: dict[str, Read] = admit(replies, reading.read, self._left_out)
        updates = {site: Update(one.models, one.told.samples, one.told.metrics) for site, one in found.items()}
        for site, one in found.items():
            self._count("releases", site, one.told.releases)
        before = self.server.values.setdefault("norms", {}).setdefault(self.server.phase, {})
        uploads = {site: update.models for site, update in updates.items()}
        lengths = by_role({site: one.lengths for site, one in found.items()})
        for site, reason in too_long(lengths, declared, before).items():
            del updates[site], uploads[site]
            for norms in lengths.values():
                norms.pop(site, None)
            self._left_out(site, reason)
        self._check_enough(len(updates), len(replies))
        remember(lengths, before)
        if self.study.federation.robust == "clip":
            uploads = shortened(uploads, declared, lengths)
        return {site: Update(uploads[site], update.samples, update.metrics) for site, update in updates.items()}

    def aggregate(self, method: Method[Any], updates: dict[str, Update]) -> Models:
        """The method's aggregate; where it is not finite, without the longest update, whose site loses the round."""
        while True:
            models = method.aggregate(self.server, updates)
            try:
                for name, state in models.items():
                    check_finite(state, name)
                return models
            except FedSuperError as problem:
                lengths = {site: sum(distance(state, None) for state in update.models.values())
                           for site, update in updates.items()}
                worst = max(lengths, key=lambda site: lengths[site])
                count = len(updates)
                del updates[worst]
                self._left_out(worst, f"with its update the average overflows ({problem})")
                self._check_enough(len(updates), count)

    def _left_out(self, site: str, reason: str) -> None:
        text = f"left out of the round ({reason})"
        self._first_problem = self._first_problem or f"{site}: {text}"
        self.refused(site, text)

    def _check_enough(self, usable: int, asked: int) -> None:
        if usable < self.study.federation.min_sites:
            raise FedSuperError(
                f"only {usable} of {asked} sites gave a usable update, {self.study.federation.min_sites} are needed; "
                f"fix this and resume (--resume --from-round {max(0, self.server.round - 1)} undoes the round before): "
                f"{self._first_problem}"
            )

    # --- after the last round -------------------------------------------------------------------------------------

    def finished(self, site: str, reply: Message) -> tuple[FinishReply, Models]:
        """The last scores, and the models that only the site holds."""
        held = declared_models(FINISH, self.method, self.server, site, {})
        return opened(site, reply, FinishReply, self.known(site)), check_models(reply.models, held, site)

    def settled(self, task: str, held: Callable[[str], frozenset[str]], site: str, reply: Message) -> Any:
        """An answer to the hand-over, to a calibration (both with the sums that came along), or to the last word.

        `held` tells the experts that a site was given, of which alone it may speak.
        """
        experts = held(site)
        kinds: dict[str, type[RoundReply]] = {HANDOVER: HandoverReply, CALIBRATE: CalibrateReply}
        told = opened(site, reply, kinds.get(task, SettleReply), self.known(site, experts))
        samples = self.described[site].samples
        if task == HANDOVER:
            sums = check_sums(reply.models, SUMS, samples["train"], site)
            self._count("sums", site, int(sums is not None and sums_noise(self.study) > 0))
            return told, sums
        if task == CALIBRATE:
            return told, check_sums(reply.models, QUALITY, samples["val"] * max(1, len(experts)), site)
        if reply.models:
            raise FedSuperError("sent models that nobody asked for")
        return told

    def _count(self, what: str, site: str, more: int) -> None:
        """What a site's answers cost its privacy, for the manifest."""
        if more:
            counted = self.server.values.setdefault(what, {})
            counted[site] = counted.get(site, 0) + more
