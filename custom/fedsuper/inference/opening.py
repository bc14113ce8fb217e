"""From a super model's folder to a predictor: everything checked, nothing held that is not needed yet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from fedsuper.config.reading import parse_study
from fedsuper.core.mode import GLOBAL
from fedsuper.core.state import State
from fedsuper.core.supermodel import PERSONAL
from fedsuper.data.task import Task
from fedsuper.inference.artifact import Check, open_super_model
from fedsuper.inference.overrides import override_prediction
from fedsuper.inference.predictor import Predictor, misfit
from fedsuper.inference.supermodel_manifest import read_manifest
from fedsuper.models.build import build_segmentation
from fedsuper.train.device import Compute


def open_predictor(folder: Path, overrides: Sequence[str] = (), compute: Compute | None = None) -> Predictor:
    """A predictor whose personalized models are read from disk as they are needed; a misfit is told before any is."""
    whole = open_super_model(folder, _fits(Path(folder)))
    return Predictor(override_prediction(whole, overrides), compute)


def _fits(folder: Path) -> Check:
    """Whether the weights of a segmentation model are those of the study's net, judged by names and shapes."""
    manifest = read_manifest(folder)
    if "study" not in manifest or "task" not in manifest:
        return lambda key, state: None  # the predictor says what is missing
    study = parse_study(manifest["study"], "super model's study")
    task = Task.from_json(manifest["task"], "super model's task")
    with torch.device("meta"):
        template = build_segmentation(study.model, task.channels * study.preprocess.slices, len(task.regions))
    wanted = {name: tensor.shape for name, tensor in template.state_dict().items()}

    def check(key: str, state: State) -> None:
        if key != GLOBAL and not key.startswith(PERSONAL):
            return
        found = {name: tensor.shape for name, tensor in state.items()}
        if found != wanted:
            different = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
            raise misfit(key.removeprefix(PERSONAL), f"{len(different)} entries differ, {different[0]} first")

    return check
