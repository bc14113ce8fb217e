"""Sites on paper: they answer every task as an honest site would, without data or training, and one of them may lie.

A whole study takes a fraction of a second, so that every lie can be told to every method.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.core.calibration import SHRINKAGES, TEMPERATURES, WIDTHS
from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.state import Models, State, is_float
from fedsuper.core.supermodel import SuperModel
from fedsuper.core.validated.gamma_choice import GRID
from fedsuper.core.validated.selection_choice import AS_IT_IS, options_of
from fedsuper.data.task import Task
from fedsuper.federation.checkpoints import Resume
from fedsuper.federation.completion.site_calibration import COUNTS, GATE, MASKS, SUMS
from fedsuper.federation.door.tensors import VARIANCE
from fedsuper.federation.messages import CALIBRATE, DESCRIBE, FINISH, HANDOVER, SETTLE, TRAIN, Message, SiteFailure
from fedsuper.federation.progress import Progress
from fedsuper.federation.server_loop import Federation
from fedsuper.federation.software import software, study_digest
from fedsuper.methods.protocol.nets import first_segmentation
from fedsuper.methods.protocol.upload import Upload, model
from fedsuper.train.checkpoint import digest

TASK = Task.from_json({"task": "retina", "channels": 3, "regions": {"disc": [1, 2], "cup": [2]}})
SITES = ("amber", "birch", "cedar", "dune")
LIAR = "cedar"
SAMPLES = {"train": 20, "val": 9, "test": 9}
SMALL: dict[str, Any] = {
    "rounds": 2, "image_size": 32, "model": {"channels": [2, 4], "residual_units": 0, "norm": "batch"},
    "fedsm-extra": {"extra_rounds": 1}, "fedsm-ensemble": {"extra_rounds": 1},
    "federation": {"on_mismatch": "drop"},
}

Answer = Message | SiteFailure
Lie = Callable[[Message], Any]


def paper_study(method: str, **more: Any) -> Study:
    """A study of two rounds that drops sites which do not fit."""
    return parse_study({**SMALL, "method": method, **more})


def moved(upload: Upload, site: str, step: float = 0.01) -> State:
    """What was declared, a little further on: another way for every site."""
    random = torch.Generator().manual_seed(SITES.index(site) + 1)
    result = {}
    for name, tensor in sorted(upload.like.items()):
        if not is_float(tensor):
            result[name] = tensor + 1
            continue
        start = torch.zeros_like(tensor) if upload.origin is None else tensor
        noise = step * torch.rand(tensor.shape, generator=random, dtype=tensor.dtype)
        positive = upload.least == 0 or name.endswith(VARIANCE)
        result[name] = start + noise if positive else start + noise - step / 2
    return result


class PaperSites:
    """An exchange with four sites; `lies` maps a task and its count (from 0) to what the liar makes of its answer."""

    def __init__(self, study: Study, lie: Lie | None = None, task: str = TRAIN, at: int = 0) -> None:
        self.study = study
        self.lie = lie
        self.task = task
        self.at = at
        self.asked: dict[str, int] = {}
        self.federation: Federation | None = None
        self.present = list(SITES)

    @property
    def sites(self) -> list[str]:
        return list(self.present)

    def __call__(self, task: str, messages: Mapping[str, Message], timeout: float) -> dict[str, Answer]:
        count = self.asked.get(task, 0)
        self.asked[task] = count + 1
        replies: dict[str, Answer] = {}
        for site, message in messages.items():
            if site not in self.present:
                replies[site] = SiteFailure("it is not connected", absent=True)
                continue
            answer = self.answer(task, site, message)
            lying = site == LIAR and task == self.task and count == self.at and self.lie is not None
            replies[site] = self.lie(copy.deepcopy(answer)) if lying and self.lie else answer
        return replies

    def answer(self, task: str, site: str, message: Message) -> Message:
        """What an honest site says."""
        if task == DESCRIBE:
            return Message({}, describe(self.study, site))
        info: dict[str, Any] = {"round": message.info["round"]}
        if task in (TRAIN, FINISH):
            names = [role.name for role in self._method(message).roles()]
            info["metrics"] = {f"val/{name}": 0.5 for name in names} | {f"loss/{name}": 0.7 for name in names}
        if task == TRAIN:
            return Message(self.models(site, message), info | {"samples": SAMPLES["train"]})
        if task == FINISH:
            first = model(first_segmentation(self.study, TASK))
            held = [role.name for role in self._federation.method.roles() if role.holder == "site"]
            return Message({name: moved(first, site) for name in held}, info)
        experts = ["global", *SITES]
        if task == HANDOVER:
            sums = FeatureSums.of(torch.randn(20, 6, generator=torch.Generator().manual_seed(SITES.index(site))))
            return Message({SUMS: sums.to_state()}, info | {"calibration": self.calibration(site, experts, COUNTS)})
        if task == CALIBRATE:
            wanted = message.info["wanted"]
            if wanted == MASKS:
                return Message({}, info | {"masks": mask_table(self.study, SITES.index(site))})
            counts = {"counts": candidate_counts(SITES.index(site))} if wanted == COUNTS else {}
            return Message({}, info | counts | {"calibration": self.calibration(site, experts, wanted)})
        assert task == SETTLE
        return Message({}, info | {"scores": {site: {"disc": 0.8, "cup": 0.7, "mean": 0.75, "n": 9}}})

    def models(self, site: str, message: Message) -> Models:
        """What the method declares, trained a little."""
        declared = self._method(message).uploads(self._federation.server, site, message.models)
        return {name: moved(upload, site) for name, upload in declared.items()}

    def calibration(self, site: str, experts: list[str], wanted: str) -> dict[str, Any]:
        """What FedSM asks of a trained selector at once, of a closed-form one at the end."""
        kind = self.study.selector.kind
        if self.study.method != "fedsm" or (kind == "statistics") == (wanted == COUNTS) and kind != "auto":
            return {}
        dice = 6.0 + SITES.index(site) / 9
        curve = {"gamma": list(GRID), "dice_sum": [dice] * len(GRID), "to_global": [3] * len(GRID), "images": 9}
        row = {"dice_sum": dict.fromkeys(experts, dice), "cross_entropy": [2.0] * len(TEMPERATURES), "images": 9}
        told = {"gamma": curve} | ({} if self.study.selector.gate == "threshold" else {"utility": row})
        return {"statistics": told, "both": told} if kind == "auto" and wanted == GATE else told

    @property
    def _federation(self) -> Federation:
        assert self.federation is not None
        return self.federation

    def _method(self, message: Message) -> Any:
        return self._federation.method.during(message.info["phase"])


def describe(study: Study, site: str) -> dict[str, Any]:
    """An honest description."""
    number = {"mean": 0.5, "sd": 0.1}
    return {
        "software": software().model_dump(), "study": study_digest(study, TASK), "data": "ab" * 16,
        "task": TASK.to_json(), "samples": dict(SAMPLES),
        "fingerprint": {"task": TASK.to_json(), "channels": 3, "cases": 38, "images": 38, "size": {"height": number},
                        "spacing": None, "intensity": {"q50": number},
                        "regions": {"disc": {"area": number}, "cup": None}},
        "splits": {site: "ab" * 32}, "changes": {"added": 0, "removed": 0, "moved": 0},
    }


def mask_table(study: Study, place: int) -> dict[str, Any]:
    """What every way of choosing a model is worth on nine images; the closed form with expected Dice is the best."""
    chooses = study.method == "fedsm"
    names = [one.name for one in options_of(study.selector.kind, study.selector.gate)] if chooses else [AS_IT_IS]
    sums = {name: 6.0 + place / 9 + names.index(name) / 10 for name in names}
    return {"images": 9, "patients": 9, "options": {
        name: {"raw": {"disc": one, "cup": one - 1}, "one_piece": {"disc": one, "cup": one},
               "dice": (one - 0.5) / 9, "spread": dict.fromkeys(names, 0.01)} for name, one in sums.items()}}


def candidate_counts(place: int) -> dict[str, Any]:
    """What every candidate is worth on nine images."""
    bins = [9] + [0] * (WIDTHS[2] - 1)
    return {"images": 9, "right": [[5 + place] * WIDTHS[0]] * len(SHRINKAGES), "distances": [bins] * len(SHRINKAGES),
            "cross_entropy": [[3.0 + place] * WIDTHS[1]] * len(SHRINKAGES)}


def federate(sites: PaperSites, folder: Path, resume: bool | Resume = False) -> tuple[SuperModel, str]:
    """Run the study; the super model, and every line a user would see."""
    shown = io.StringIO()
    sites.federation = Federation(sites.study, sites, folder, Progress("run", None, shown))
    return sites.federation.run(resume), shown.getvalue()


def bits(super_model: SuperModel) -> dict[str, Any]:
    """Digests of all models, and what the sites' answers put into the manifest."""
    keys = ("gamma", "gamma_curve", "utility", "statistics", "selection", "one_piece")
    told = {key: super_model.manifest.get(key) for key in keys}
    return {name: digest(state) for name, state in super_model.to_models().items()} | told | {
        "test": super_model.manifest["metrics"]["test"]}
