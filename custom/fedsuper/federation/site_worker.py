"""The study as a site sees it: answers the server's tasks with its own data and its own files.

Engine-neutral: the in-process engine calls it directly, the NVFlare executor from inside a task. Nothing is kept in
memory that a restart could lose: with fewer simulator threads than sites every task runs in a new process.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.core.state import Models, check_finite
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.task import Task
from fedsuper.errors import FedSuperError
from fedsuper.federation.door.last_replies import SettleReply
from fedsuper.federation.door.replies import DescribeReply, FinishReply, TrainReply
from fedsuper.federation.message_schema import (
    CalibrateRequest,
    DescribeRequest,
    HandoverRequest,
    R,
    RoundRequest,
    opened,
)
from fedsuper.federation.messages import CALIBRATE, DESCRIBE, FINISH, HANDOVER, SETTLE, TRAIN, Message
from fedsuper.federation.outlet.audit import AUDIT_FILE
from fedsuper.federation.outlet.budget import SPENT_FILE, Budget
from fedsuper.federation.outlet.protection import Protection
from fedsuper.federation.outlet.release import Outlet, SiteRules, declared_for
from fedsuper.federation.outlet.withholding import Withholding
from fedsuper.federation.precision.rounding import widened
from fedsuper.federation.precision.upward import going_up
from fedsuper.federation.site_data import SiteData
from fedsuper.federation.software import software, study_digest
from fedsuper.inference.artifact import load_super_model, save_super_model
from fedsuper.methods import create_method
from fedsuper.methods.protocol.method import Method
from fedsuper.methods.protocol.site_round import SiteRound, SiteStore
from fedsuper.train.checkpoint import load_models, save_models
from fedsuper.train.device import Compute

LOG = logging.getLogger(__name__)


@dataclass(eq=False)  # hashable by identity, for the cache of its samples
class SiteWorker:
    """One hospital. `state_folder` holds what it keeps between rounds; `data_root` never leaves it."""

    name: str
    data_root: Path
    state_folder: Path
    rules: SiteRules = field(default_factory=SiteRules)
    audit: Path | None = None
    data: SiteData = field(init=False)

    def __post_init__(self) -> None:
        self.data = SiteData(self.name, Path(self.data_root), Path(self.state_folder))

    def handle(self, task: str, message: Message) -> Message:
        """Answer one task; what leaves is exactly what is declared, and is written down."""
        audit = self.audit or Path(self.state_folder) / AUDIT_FILE
        return Outlet(self.name, self.rules, audit).release(task, message, self._answer(task, message))

    def _answer(self, task: str, message: Message) -> Message:
        handlers = {
            TRAIN: self._train, FINISH: self._finish, HANDOVER: self._handover,
            CALIBRATE: self._calibrate, SETTLE: self._settle,
        }
        if task == DESCRIBE:
            return self._describe(self._read(message, DescribeRequest))
        if task not in handlers:
            raise FedSuperError(f"{self.name}: unknown task '{task}'; the server runs another FedSuper version")
        return handlers[task](message)

    def _read(self, message: Message, kind: type[R]) -> R:
        return opened(f"{self.name}, from the server", message, kind)

    # --- tasks ----------------------------------------------------------------------------------------------------

    def _describe(self, request: DescribeRequest) -> Message:
        study = parse_study(request.study)
        task = self.data.task()
        self.rules.check_study(study, task)
        facts = self._told(study).facts(self.data.describe(study, request.resume))
        return DescribeReply(software=software(), study=study_digest(study, task), task=task.to_json(),
                             **asdict(facts)).message()

    def _told(self, study: Study) -> Withholding:
        return Withholding(max(self.rules.minimum, study.privacy.minimum), study.privacy.noise > 0)

    def site_round(self, request: RoundRequest, received: Models) -> SiteRound:
        """What the method sees of this site in the round that is asked for."""
        study = parse_study(request.study)
        return SiteRound(
            name=self.name,
            label=request.label,
            classes=len(request.sites),
            round=request.round + 1,
            study=study,
            task=Task.from_json(request.task),
            train=self.data.samples(study, "train"),
            val=self.data.samples(study, "val"),
            compute=Compute.from_config(study.compute),
            store=self._load_store(request.accepted),
            received=widened(received, study.wire),
            minimum=self._told(study).minimum,
        )

    def _train(self, message: Message) -> Message:
        request = self._read(message, RoundRequest)
        site = self.site_round(request, message.models)
        method = create_method(site.study).during(request.phase)
        metrics = self._validate(method, site)
        models = method.local_update(site)
        for role, state in (models | site.store.models).items():
            check_finite(state, f"{self.name}, {role}")  # before anything is kept or sent
        metrics |= {f"loss/{role}": value for role, value in site.losses.items()}
        told = self._told(site.study)
        samples = told.count(len(site.train))
        declared = partial(declared_for, self.name, TRAIN, request, samples, message.models)
        models, releases = self._protection(site.study).models(models, declared, site.releases)
        models = going_up(site, models, declared)
        self._save_store(site, request.accepted)
        metrics = told.metrics(metrics, site)
        return TrainReply(round=request.round, samples=samples, metrics=metrics, releases=releases).message(models)

    def _protection(self, study: Study) -> Protection:
        path = Path(self.state_folder) / SPENT_FILE
        return Protection(study, Budget(self.name, path, self.rules.epsilon, study.privacy.delta))

    def _finish(self, message: Message) -> Message:
        request = self._read(message, RoundRequest)
        site = self.site_round(request, message.models)
        whole = create_method(site.study)
        method = whole.during(request.phase)
        method.final_update(site)
        metrics = self._validate(method, site)
        self._save_store(site, request.accepted)
        models = {role.name: site.best(role.name) for role in whole.roles() if role.holder == "site"}
        quiet = site.study.privacy.noise > 0  # a model that only this site holds has no noise
        kept = {name: state for name, state in models.items() if state and not quiet}
        return FinishReply(round=request.round, metrics=self._told(site.study).metrics(metrics, site)).message(kept)

    def _validate(self, method: Method[Any], site: SiteRound) -> dict[str, float]:
        """Score what would be deployed now, before training changes it; keep the best of site-held models."""
        metrics: dict[str, float] = {}
        roles = {role.name: role for role in method.roles()}
        for name, state in method.candidates(site).items():
            metrics |= method.score(site, roles[name], state)
            if roles[name].holder == "site":
                site.keep_best(name, metrics[f"val/{name}"], state)
        return metrics

    # --- hand-over ------------------------------------------------------------------------------------------------

    def _handover(self, message: Message) -> Message:
        """Keep the super model; return the sums of this site's features, and what the method calibrates."""
        from fedsuper.federation.completion.site_calibration import handed_over

        request = self._read(message, HandoverRequest)
        study, manifest = parse_study(request.study), request.manifest
        super_model = SuperModel.from_models(message.models, request.sites, manifest["mode"], manifest)
        save_super_model(super_model, self._super_model_folder())
        train, val = (self.data.samples(study, part) for part in ("train", "val"))
        return self._protection(study).sums(handed_over(super_model, study, train, val, request, self._told(study)))

    def _calibrate(self, message: Message) -> Message:
        """Complete the super model with what the server sends; return what it asks for of the validation images."""
        from fedsuper.federation.completion.site_calibration import measured

        request = self._read(message, CalibrateRequest)
        study = parse_study(request.study)
        super_model = self._completed(message, request.manifest)
        return measured(super_model, study, self.data.samples(study, "val"), request, self._told(study))

    def _completed(self, message: Message, manifest: dict[str, Any]) -> SuperModel:
        from fedsuper.federation.completion.site_calibration import completed

        super_model = completed(load_super_model(self._super_model_folder()), message, manifest)
        save_super_model(super_model, self._super_model_folder())
        return super_model

    def _settle(self, message: Message) -> Message:
        """Complete the hand-over with the final manifest; return mean test scores, never single images."""
        from fedsuper.evaluation.evaluate import site_scores

        request = self._read(message, HandoverRequest)
        study = parse_study(request.study)
        super_model = self._completed(message, request.manifest)
        compute = Compute.from_config(study.compute)
        told = self._told(study)
        scores = {
            folder.name: site_scores(super_model, folder, items["test"], compute, self.name)
            if told.figures(item.case for item in items["test"]) else None
            for folder, items in self.data.splits(study).items()
        }
        return SettleReply(round=request.round, scores=scores).message()

    def _super_model_folder(self) -> Path:
        return self.state_folder / "supermodel"

    # --- what the site keeps ---------------------------------------------------------------------------------------

    def _load_store(self, accepted: int) -> SiteStore:
        """The state after the last round in which the server counted this site.

        A round that is run again starts where it started before, and a round whose answer was lost or refused leaves no
        trace: what the site keeps and what the server knows of it stay in step (Scaffold's c = sum p_k c_k needs it).
        A torn file falls back to the one before. Where nothing is left of what the server counted, the site says so.
        """
        problem = f"{self.state_folder.name}: no state of round {accepted}"
        for path in reversed(self._stores()):
            if accepted and _number(path) <= accepted:
                try:
                    models, values = load_models(path)
                except FedSuperError as error:
                    problem = str(error)
                    LOG.warning("%s", error)
                    continue
                return SiteStore(models, values)
        if accepted:
            raise FedSuperError(
                f"{self.name}: what it kept of the rounds up to {accepted} is lost, though the server counted them "
                f"({problem}); restore the site's state folder, or go on without the site (--resume --without "
                f"{self.name}) or from an earlier round (--from-round)"
            )
        return SiteStore()

    def _save_store(self, site: SiteRound, accepted: int) -> None:
        """Write this round's state beside the last counted ones; those of lost rounds go."""
        newest = self.state_folder / f"state-{site.round:05d}.safetensors"
        save_models(newest, site.store.models, site.store.values)
        counted = [path for path in self._stores() if _number(path) <= accepted]
        for path in self._stores():
            if path != newest and path not in counted[-site.study.federation.keep_rounds:]:
                path.unlink(missing_ok=True)

    def _stores(self) -> list[Path]:
        return sorted(path for path in self.state_folder.glob("state-*.safetensors") if path.stem[6:].isdecimal())


def _number(path: Path) -> int:
    return int(path.stem.partition("-")[2])
