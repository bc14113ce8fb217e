"""The study as a site sees it: answers the server's tasks with its own data and its own files.

Engine-neutral: the in-process engine calls it directly, the NVFlare executor from inside a task. Nothing is kept in
memory that a restart could lose: with fewer simulator threads than sites every task runs in a new process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fedsuper import __version__
from fedsuper.config import Study, parse_study
from fedsuper.core.state import check_finite
from fedsuper.core.supermodel import GLOBAL, SuperModel
from fedsuper.data.fingerprint import fingerprint
from fedsuper.data.splits import PARTS
from fedsuper.data.task import Task
from fedsuper.engines.messages import DESCRIBE, FINISH, HANDOVER, SETTLE, TRAIN, Message
from fedsuper.engines.site_data import SiteData
from fedsuper.errors import FedSuperError
from fedsuper.inference.artefact import load_super_model, save_super_model
from fedsuper.methods import create_method
from fedsuper.methods.base import Method
from fedsuper.methods.site import Site, SiteStore
from fedsuper.train.checkpoint import load_models, save_models
from fedsuper.train.device import Compute

KEPT = 2


@dataclass(eq=False)  # hashable by identity, for the cache of its samples
class SiteWorker:
    """One hospital. `state_folder` holds what it keeps between rounds; `data_root` never leaves it."""

    name: str
    data_root: Path
    state_folder: Path
    data: SiteData = field(init=False)

    def __post_init__(self) -> None:
        self.data = SiteData(self.name, Path(self.data_root), Path(self.state_folder) / "cache")

    def handle(self, task: str, message: Message) -> Message:
        """Answer one task."""
        study = parse_study(message.info["study"])
        handlers = {
            DESCRIBE: self._describe,
            TRAIN: self._train,
            FINISH: self._finish,
            HANDOVER: self._handover,
            SETTLE: self._settle,
        }
        if task not in handlers:
            raise FedSuperError(f"{self.name}: unknown task '{task}'; the server runs another FedSuper version")
        return handlers[task](study, message)

    # --- tasks ----------------------------------------------------------------------------------------------------

    def _describe(self, study: Study, message: Message) -> Message:
        task = self.data.task()
        splits = self.data.splits(study)
        counts = {part: sum(len(parts[part]) for parts in splits.values()) for part in PARTS}
        folder, parts = next(iter(splits.items()))
        return Message(
            info={
                "version": __version__,
                "task": task.to_json(),
                "samples": counts,
                "fingerprint": fingerprint(folder, task, [item for part in PARTS for item in parts[part]]),
            }
        )

    def _site(self, study: Study, message: Message) -> Site:
        info = message.info
        return Site(
            name=self.name,
            label=info["label"],
            classes=len(info["sites"]),
            round=info["round"] + 1,
            study=study,
            task=Task.from_json(info["task"]),
            train=self.data.samples(study, "train"),
            val=self.data.samples(study, "val"),
            compute=Compute.from_config(study.compute),
            store=self._load_store(info["accepted"]),
            received=dict(message.models),
            extra=info["extra"],
            info=info,
        )

    def _train(self, study: Study, message: Message) -> Message:
        method = create_method(study)
        site = self._site(study, message)
        metrics = self._validate(method, site)
        models = method.local_update(site)
        for role, state in (models | site.store.models).items():
            check_finite(state, f"{self.name}, {role}")  # before anything is kept or sent
        metrics |= {f"loss/{role}": value for role, value in site.losses.items()}
        self._save_store(site)
        return Message(models, {"samples": len(site.train), "metrics": metrics})

    def _finish(self, study: Study, message: Message) -> Message:
        method = create_method(study)
        site = self._site(study, message)
        method.final_update(site)
        metrics = self._validate(method, site)
        self._save_store(site)
        held = {role.name for role in method.roles() if role.holder == "site"}
        models = {name: site.best(name) for name in held}
        return Message({name: state for name, state in models.items() if state}, {"metrics": metrics})

    def _validate(self, method: Method, site: Site) -> dict[str, float]:
        """Score what would be deployed now, before training changes it; keep the best of site-held models."""
        metrics: dict[str, float] = {}
        roles = {role.name: role for role in method.roles()}
        for name, state in method.candidates(site).items():
            metrics |= method.score(site, roles[name], state)
            if roles[name].holder == "site":
                site.keep_best(name, metrics[f"val/{name}"], state)
        return metrics

    # --- hand-over ------------------------------------------------------------------------------------------------

    def _handover(self, study: Study, message: Message) -> Message:
        """Keep the super model; return how Dice would change with gamma on this site's validation data."""
        from fedsuper.inference.gate import gamma_statistics

        manifest = message.info["manifest"]
        experts = {role.removeprefix("expert/"): s for role, s in message.models.items() if role.startswith("expert/")}
        super_model = SuperModel(
            sites=message.info["sites"],
            global_model=experts.pop(GLOBAL, None),
            personal=experts,
            selector=message.models.get("selector"),
            mode=manifest["mode"],
            manifest=manifest,
            extras={r.removeprefix("extra/"): state for r, state in message.models.items() if r.startswith("extra/")},
        )
        save_super_model(super_model, self._super_model_folder())
        if super_model.selector is None or manifest["mode"] != "select":
            return Message()
        val = self.data.samples(study, "val")
        return Message(info={"gamma": gamma_statistics(super_model, val, Compute.from_config(study.compute))})

    def _settle(self, study: Study, message: Message) -> Message:
        """Complete the hand-over with the final manifest; return mean test scores, never single images."""
        from fedsuper.evaluation.evaluate import site_scores

        super_model = load_super_model(self._super_model_folder())
        super_model.manifest = message.info["manifest"]
        save_super_model(super_model, self._super_model_folder())
        scores = {}
        for folder, items in self.data.splits(study).items():
            scores[folder.name] = site_scores(
                super_model, folder, items["test"], Compute.from_config(study.compute), self.name
            )
        return Message(info={"scores": scores})

    def _super_model_folder(self) -> Path:
        return self.state_folder / "supermodel"

    # --- what the site keeps ---------------------------------------------------------------------------------------

    def _load_store(self, accepted: int) -> SiteStore:
        """The state after the last round in which the server counted this site.

        A round that is run again starts where it started before, and a round whose answer was lost or refused leaves no
        trace: what the site keeps and what the server knows of it stay in step (Scaffold's c = sum p_k c_k needs it).
        """
        for path in reversed(self._stores()):
            if _number(path) <= accepted:
                models, values = load_models(path)
                return SiteStore(models, values)
        return SiteStore()

    def _save_store(self, site: Site) -> None:
        """Write this round's state beside the last counted ones; those of lost rounds go."""
        newest = self.state_folder / f"state-{site.round:05d}.safetensors"
        save_models(newest, site.store.models, site.store.values)
        counted = [path for path in self._stores() if _number(path) <= site.info["accepted"]]
        for path in self._stores():
            if path != newest and path not in counted[-KEPT:]:
                path.unlink(missing_ok=True)

    def _stores(self) -> list[Path]:
        return sorted(self.state_folder.glob("state-*.safetensors"))


def _number(path: Path) -> int:
    return int(path.stem.partition("-")[2])
