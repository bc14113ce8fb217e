"""What an export is made of: the models in order, the names they go by, and the description that puts them to work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedsuper import __version__
from fedsuper.core.supermodel import PERSONAL, SELECTOR
from fedsuper.inference.artifact import load_super_model
from fedsuper.inference.export.chooser import Chooser, gate_name
from fedsuper.inference.modes.select import gamma_of
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.supermodel_manifest import SUFFIX, read_manifest
from fedsuper.train.device import Compute

THRESHOLD = 0.5  # a pixel lies in a region where sigmoid(logit) reaches it
LOGITS = ["logits"]
CHOICE = ["probabilities", "model"]


@dataclass(frozen=True)
class Parts:
    """A super model about to be exported; `manifest` is the whole content of its `supermodel.json`."""

    predictor: Predictor
    manifest: dict[str, Any]
    name_sites: bool

    @classmethod
    def of(cls, folder: Path, name_sites: bool = False) -> Parts:
        """Read the super model in `folder`."""
        # Programs are traced on the CPU in float32, whatever the study trained on: they must run everywhere.
        predictor = Predictor(load_super_model(folder), Compute(torch.device("cpu")))
        return cls(predictor, read_manifest(folder), name_sites)

    def public_name(self, model: str) -> str:
        """What a site, or its model, is called outside: its number in label order, unless sites agreed to be named."""
        sites = self.predictor.super_model.sites
        return model if self.name_sites or model not in sites else f"site-{sites.index(model) + 1}"

    def stem(self, model: str) -> str:
        """The file name, without ending, of a model or of the selector: letters, digits, dot, dash and underscore."""
        if model in self.predictor.super_model.sites:
            if not self.name_sites:
                return f"personal-{self.public_name(model)}"
            model = PERSONAL + model
        name: str = self.manifest["files"][model]["name"] if model in self.manifest["files"] else model
        return name.removesuffix(SUFFIX)

    @property
    def experts(self) -> list[str]:
        """The models in the order that the selector's `model` counts by."""
        return list(self.predictor.experts)

    def selector(self) -> nn.Module | None:
        """Selector and gate as one net, None without a selector."""
        return None if self.predictor.super_model.selector is None else Chooser(self.predictor)

    def choice(self) -> list[str]:
        """What the selector's net gives."""
        return CHOICE if gate_name(self.predictor) else CHOICE[:1]

    def describe(self, files: dict[str, str], digests: dict[str, str]) -> dict[str, Any]:
        """Which file holds which net, and all that another tool needs besides the nets, as plain JSON."""
        predictor, task = self.predictor, self.predictor.task
        size = predictor.study.image_size
        there = SELECTOR in files
        return {
            "fedsuper": __version__,
            "torch": str(torch.__version__),
            "method": predictor.study.method,
            "task": task.name,
            "channels": task.channels,
            "regions": {region: list(values) for region, values in task.regions.items()},
            "image_size": size,
            "preprocess": predictor.preprocess.to_json(),
            "input": ["batch", predictor.channels, size, size],
            "output": LOGITS[0],
            "threshold": THRESHOLD,
            "prediction": predictor.study.prediction.model_dump(mode="json"),
            "flips": [list(axes) for axes in predictor.flips],
            "mode": predictor.super_model.mode,
            "sites": [self.public_name(site) for site in predictor.super_model.sites],
            "models": {self.public_name(name): files[name] for name in self.experts if name in files},
            "selector": files.get(SELECTOR),
            "selector_classes": [self.public_name(name) for name in predictor.classes] if there else None,
            "selector_outputs": self.choice() if there else None,
            "gate": gate_name(predictor),
            "one_piece": [list(task.regions)[place] for place in predictor.one_piece],
            "gamma": gamma_of(predictor) if there else None,
            "sha256": digests,
        }


