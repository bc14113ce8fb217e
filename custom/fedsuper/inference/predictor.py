"""The super model at work: nets rebuilt from the manifest, images in, masks in the images' own grid out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from fedsuper.config import parse_study
from fedsuper.core.state import State
from fedsuper.core.supermodel import GLOBAL, SuperModel
from fedsuper.data.image_io import Image
from fedsuper.data.preprocess import Preprocess, prepare_image, regions_to_labels, restore_probabilities
from fedsuper.data.task import Task
from fedsuper.errors import FedSuperError
from fedsuper.models import build_segmentation, build_selector
from fedsuper.train.device import Compute
from fedsuper.train.loop import predict as forward

if TYPE_CHECKING:
    from fedsuper.inference.modes import Mode

# Modes whose selector has an output for the global model too, at index 0 (FedSM-extra and the ensemble selector).
WITH_GLOBAL_CLASS = ("select-all", "mix")


@dataclass
class Prediction:
    """A mask and how it came about.

    `labels` uint8 `[Z, H, W]` and `probabilities` float32 `[Z, R, H, W]` are in the image's own grid; `chosen` names
    the model of every slice; `selector` `[Z, classes]` are the probabilities of `classes`, None without a selector.
    """

    labels: np.ndarray
    probabilities: torch.Tensor
    chosen: list[str]
    classes: list[str]
    selector: torch.Tensor | None
    gamma: float | None
    details: list[dict[str, Any]] = field(default_factory=list)


class Predictor:
    """A super model ready to predict on one device; every net is built once, when it is first needed."""

    def __init__(self, super_model: SuperModel, compute: Compute | None = None) -> None:
        manifest = super_model.manifest
        for key in ("study", "task"):
            if key not in manifest:
                raise FedSuperError(f"super model: its manifest has no '{key}'; hand it over again from its run")
        self.super_model = super_model
        self.study = parse_study(manifest["study"], "super model's study")
        self.task = Task.from_json(manifest["task"], "super model's task")
        # The study's device is the training site's; a super model is used on whatever is here.
        self.compute = compute or Compute.from_config(self.study.compute.model_copy(update={"device": "auto"}))
        self.preprocess = Preprocess(image_size=self.study.image_size, **self.study.preprocess.model_dump())
        self.experts = super_model.experts()
        if not self.experts:
            raise FedSuperError("super model: holds no segmentation model; hand it over again from its run")
        self._nets: dict[str, nn.Module] = {}
        self._selector: nn.Module | None = None

    @property
    def classes(self) -> list[str]:
        """What the selector's outputs stand for."""
        first = [GLOBAL] if self.super_model.mode in WITH_GLOBAL_CLASS else []
        return first + self.super_model.sites

    @property
    def channels(self) -> int:
        """Input planes of the nets: image channels times context slices."""
        return self.task.channels * self.study.preprocess.slices

    def prepare(self, image: Image) -> torch.Tensor:
        """The nets' input for an image, `[Z, C, S, S]`."""
        return prepare_image(image, self.preprocess, self.task.channels)

    def build(self, expert: str) -> nn.Module:
        """A fresh net with the weights of `expert`, on the device; the caller may change it."""
        if expert not in self.experts:
            raise FedSuperError(f"this super model has no model '{expert}'; it has {', '.join(self.experts)}")
        net = build_segmentation(self.study.model, self.channels, len(self.task.regions))
        return self._place(net, self.experts[expert], expert)

    def net(self, expert: str) -> nn.Module:
        """The shared net of `expert`, not to be changed."""
        if expert not in self._nets:
            self._nets[expert] = self.build(expert)
        return self._nets[expert]

    def logits(self, expert: str, images: torch.Tensor) -> torch.Tensor:
        """Logits `[N, R, S, S]` of one expert for prepared slices."""
        return forward(self.net(expert), images, self.compute)

    def selector(self) -> nn.Module:
        """The selector's net, not to be changed."""
        state = self.super_model.selector
        if state is None:
            raise FedSuperError(f"this super model ({self.super_model.manifest.get('method')}) has no selector; "
                                "use --mode global, ensemble or site:NAME")
        if self._selector is None:
            net = build_selector(self.study.selector, self.channels, len(self.classes))
            self._selector = self._place(net, state, "selector")
        return self._selector

    def selector_probabilities(self, images: torch.Tensor) -> torch.Tensor:
        """q = softmax(f_s(x)) as float64 `[N, classes]`; a class without a model cannot be chosen and gets 0."""
        logits = forward(self.selector(), images, self.compute).double()
        absent = [index for index, name in enumerate(self.classes) if name not in self.experts]
        if len(absent) < len(self.classes):
            logits[:, absent] = -torch.inf
        return logits.softmax(dim=1)

    def restore(self, probabilities: torch.Tensor, size: tuple[int, int]) -> tuple[np.ndarray, torch.Tensor]:
        """Label map `[Z, H, W]` and probabilities `[Z, R, H, W]` at `size`, from probabilities at the nets' size."""
        native = restore_probabilities(probabilities, size)
        return regions_to_labels(native, self.task.regions), native

    def predict(
        self,
        image: Image,
        mode: str | None = None,
        gamma: float | None = None,
        site: str | None = None,
        vote: str = "case",
    ) -> Prediction:
        """Segment one image; `mode` None is the method's own way, `site` is where the image comes from (mode `own`)."""
        from fedsuper.inference.modes import ModeOptions, create_mode

        chosen_mode = create_mode(self, mode, ModeOptions(gamma, site, vote))
        images = self.prepare(image)
        if chosen_mode.adapts:
            chosen_mode.prepare([images])
        return self.predict_prepared(images, image.size, chosen_mode)

    def predict_prepared(self, images: torch.Tensor, size: tuple[int, int], mode: Mode) -> Prediction:
        """Segment an image prepared before, with a mode made before; the mask gets height and width `size`."""
        outcome = mode.predict(SliceBatch(self, [images]))
        labels, probabilities = self.restore(outcome.probabilities, size)
        return Prediction(
            labels, probabilities, outcome.chosen, self.classes, outcome.selector, mode.gamma, outcome.details
        )

    def _place(self, net: nn.Module, state: State, name: str) -> nn.Module:
        try:
            net.load_state_dict(state)
        except RuntimeError as error:
            line = " ".join(str(error).split())[:160]
            raise FedSuperError(f"super model: the weights of '{name}' do not fit the study's net ({line}); "
                                "the folder mixes two runs: copy it again") from None
        return self.compute.place_net(net).eval()


class SliceBatch:
    """The prepared slices of one or more images, with every expert's output computed at most once per slice.

    `images` is `[N, C, S, S]`, the slices of all images one after the other; `sizes` says how many each image has.
    Several modes evaluated on one batch share the experts' outputs.
    """

    def __init__(self, predictor: Predictor, cases: Sequence[torch.Tensor]) -> None:
        self.predictor = predictor
        self.images = torch.cat(list(cases))
        self.sizes = [len(case) for case in cases]
        self._logits: dict[str, torch.Tensor] = {}
        self._known: dict[str, torch.Tensor] = {}
        self._selector: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.images)

    def logits(self, expert: str, rows: torch.Tensor | None = None) -> torch.Tensor:
        """The expert's logits for the slices `rows` (indices; all of them by default)."""
        rows = torch.arange(len(self)) if rows is None else rows
        known = self._known.setdefault(expert, torch.zeros(len(self), dtype=torch.bool))
        missing = rows[~known[rows]]
        if len(missing):
            fresh = self.predictor.logits(expert, self.images[missing])
            buffer = self._logits.setdefault(expert, torch.empty(len(self), *fresh.shape[1:]))
            buffer[missing] = fresh
            known[missing] = True
        return self._logits[expert][rows]

    def selector(self) -> torch.Tensor:
        """The selector's probabilities, float64 `[N, classes]`."""
        if self._selector is None:
            self._selector = self.predictor.selector_probabilities(self.images)
        return self._selector

    def case_means(self, values: torch.Tensor) -> torch.Tensor:
        """`[N, ...]` with each slice's values replaced by their mean over the slices of its image."""
        parts = [part.mean(dim=0, keepdim=True).expand_as(part) for part in values.split(self.sizes)]
        return torch.cat(parts)
