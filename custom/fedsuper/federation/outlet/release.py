"""Whether an answer may leave: an allow-list that fails closed, and the site's own word on it.

The same function is called where the answer is made (any engine) and, on NVFlare, by a filter that the site's policy
can require; it needs nothing but the question and the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from fedsuper.config.reading import parse_study
from fedsuper.core.state import Models
from fedsuper.core.supermodel import GLOBAL
from fedsuper.core.validated.selection_choice import BOTH, STATISTICS
from fedsuper.data.task import Task
from fedsuper.errors import FedSuperError
from fedsuper.federation.door.admission import check_plain
from fedsuper.federation.door.replies import MOST_IMAGES, PARTS, Known
from fedsuper.federation.door.tensors import check_models, check_sums
from fedsuper.federation.message_schema import RoundRequest
from fedsuper.federation.messages import CALIBRATE, DESCRIBE, HANDOVER, TRAIN, Message
from fedsuper.federation.outlet.audit import audit_answer, write_line
from fedsuper.federation.outlet.declared import QUALITY, REPLIES, SUMS, declared_models, travels
from fedsuper.federation.precision.rounding import widened
from fedsuper.federation.precision.upward import restored
from fedsuper.inference.modes import MODES
from fedsuper.methods import create_method
from fedsuper.methods.protocol.method import Method
from fedsuper.methods.protocol.server import Server
from fedsuper.methods.protocol.upload import Upload
from fedsuper.schema import first_problem

SUMS_WITH = {HANDOVER: SUMS, CALIBRATE: QUALITY}
WORDS = {GLOBAL, "other", "mean"}


@dataclass(frozen=True)
class SiteRules:
    """What a site has decided for itself, whatever a study asks.

    `minimum`: figures over fewer patients are withheld, smaller counts are told as this many. `refuse_methods` and
    `refuse_models`: what it takes no part in, and what it never sends. `epsilon`: its privacy budget for one study.
    """

    minimum: int = 1
    refuse_methods: Sequence[str] = ()
    refuse_models: Sequence[str] = ()
    epsilon: float | None = None

    def check_study(self, study: Any, task: Task) -> None:
        """Refuse a study that would send what this site does not."""
        if study.method in self.refuse_methods:
            raise FedSuperError(f"takes no part in {study.method}: its site file refuses the method")
        if self.refuse_models:
            self.check_names({travel.name for travel in travels(study, task)})

    def check_names(self, names: set[str]) -> None:
        """Refuse to send what the site file names."""
        refused = sorted(names & set(self.refuse_models))
        if refused:
            raise FedSuperError(f"does not send '{refused[0]}': its site file refuses it")


@dataclass(frozen=True)
class Outlet:
    """A site's only way out. `audit` is the file it writes to; None for a pass that someone else writes down."""

    site: str
    rules: SiteRules = field(default_factory=SiteRules)
    audit: Path | None = None

    def release(self, task: str, request: Message, reply: Message, **more: Any) -> Message:
        """The answer, if all of it may leave; otherwise nothing leaves, and why is written down."""
        try:
            check_release(self.site, task, request, reply)
            self.rules.check_names(set(reply.models))
        except FedSuperError as problem:
            if self.audit:
                write_line(self.audit, task=task, result=f"refused: {problem}", **more)
            raise
        if self.audit:
            audit_answer(self.audit, task, reply, **more)
        return reply


def check_release(site: str, task: str, request: Message, reply: Message) -> None:
    """Refuse an answer that holds anything beyond what is declared for this task, method and round."""
    try:
        kind = REPLIES.get(task)
        if kind is None:
            raise FedSuperError(f"nothing is declared for the task '{task}'")
        check_plain(reply.info)
        _check_info(site, kind, task, request, reply)
    except FedSuperError as problem:
        raise FedSuperError(f"{site}: the answer to '{task}' stays here ({problem}); only what "
                            "docs/reference/what-travels.md lists may leave") from None
    except Exception as error:  # closed: what cannot be judged does not leave
        raise FedSuperError(f"{site}: the answer to '{task}' stays here (it cannot be judged: {type(error).__name__}); "
                            "only what docs/reference/what-travels.md lists may leave") from None


def _check_info(site: str, kind: type[BaseModel], task: str, request: Message, reply: Message) -> None:
    asked = None if "round" not in request.info else RoundRequest.model_validate(
        {key: value for key, value in request.info.items() if key in RoundRequest.model_fields})
    method = create_method(parse_study(asked.study)) if asked else None
    try:
        kind.model_validate(reply.info, context=_known(site, asked, method, reply) if asked and method else None)
    except ValidationError as error:
        raise FedSuperError(first_problem(error)) from None
    if asked is None or method is None:
        if reply.models:
            raise FedSuperError(f"it carries '{next(iter(reply.models))}', and no model leaves with this task")
        _check_words(site, task, request, reply)
        return
    if task in SUMS_WITH:
        check_sums(reply.models, SUMS_WITH[task], MOST_IMAGES, site)
        return
    samples = int(reply.info.get("samples", 0))
    declared = declared_for(site, task, asked, samples, request.models)
    sent = request.models if task == TRAIN else {}
    check_models(restored(reply.models, declared, sent, method.study.wire, site), declared, site)


def declared_for(site: str, task: str, asked: RoundRequest, samples: int, sent: Models) -> dict[str, Upload]:
    """The models that the answer to a question carries, as a site can tell by itself."""
    study = parse_study(asked.study)
    server = Server(study, Task.from_json(asked.task), asked.sites, {site: samples}, asked.round, asked.phase)
    return declared_models(task, create_method(study), server, site, widened(sent, study.wire))


def _check_words(site: str, task: str, request: Message, reply: Message) -> None:
    """Names that an answer outside of rounds may use: the task's own, the site's, and those of the super model."""
    if task == DESCRIBE:
        tasks = reply.info["task"], reply.info["fingerprint"]["task"]
        if any(Task.from_json(told).to_json() != told for told in tasks):
            raise FedSuperError("its task is not written as a task is")
        return
    manifest = request.info["manifest"]
    known = {*manifest["files"], *manifest["sites"], *manifest["task"]["regions"], *MODES, *WORDS}
    used = {*reply.info.get("missing", []), *(reply.info.get("shares") or {}), *(reply.info.get("dice") or {})}
    for model, row in (reply.info.get("models") or {}).items():
        used |= {model, *row}
    if not used <= known:
        raise FedSuperError("it uses a name that the super model does not have")


def _known(site: str, asked: RoundRequest, method: Method[Any], reply: Message) -> Known:
    """What the server will compare the answer with, as far as a site knows it."""
    folders = frozenset(reply.info.get("scores", {})) if method.pooled else frozenset({site})
    told = reply.info.get("calibration", {})
    rows = [one.get("utility") or {} for one in (told, *(told.get(kind) or {} for kind in (STATISTICS, BOTH)))]
    experts = frozenset(name for row in rows for name in row.get("dice_sum", {}))
    if not experts <= {*asked.sites, GLOBAL}:
        raise FedSuperError("it names models that the study does not have")
    return Known(
        site=site, round=asked.round, samples=dict.fromkeys(PARTS, MOST_IMAGES),
        roles=frozenset(role.name for role in method.roles()), regions=frozenset(asked.task["regions"]),
        folders=folders, experts=experts, calibration=method.Calibration,
    )
