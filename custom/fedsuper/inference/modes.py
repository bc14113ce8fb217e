"""How a super model turns slices into probabilities: one small class per mode.

A mode gets the slices of one or more images and returns a probability map per region and slice, with the name of the
model behind each slice. The table names every mode; one that lives elsewhere (test-time adaptation) is a line in it.

Selection over a volume, `vote`: with `case` (default) the selector's probabilities are averaged over the volume's
slices and one decision holds for all of them, because a mask put together from several models' slices shows their
seams; `slice` decides for each slice alone. A photograph is one slice: both are the same.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from fedsuper.core.supermodel import GLOBAL, gate
from fedsuper.errors import FedSuperError
from fedsuper.inference.predictor import Predictor, SliceBatch

# Used where a super model brings no gamma of its own (a federation whose sites all failed to report the curve).
DEFAULT_GAMMA = 0.9

MODES: dict[str, str] = {
    "select": "fedsuper.inference.modes:Select",
    "select-all": "fedsuper.inference.modes:SelectAll",
    "mix": "fedsuper.inference.modes:Mix",
    "global": "fedsuper.inference.modes:Global",
    "own": "fedsuper.inference.modes:Own",
    "ensemble": "fedsuper.inference.modes:Ensemble",
    "route": "fedsuper.inference.routing_mode:Route",
    "global-stats": "fedsuper.inference.norm_statistics:GlobalStatistics",
    "tent": "fedsuper.inference.tent:Tent",
    "ttt": "fedsuper.inference.ttt:RotationTraining",
}
SITE_PREFIX = "site:"


@dataclass(frozen=True)
class ModeOptions:
    """`gamma` None: the super model's own. `site`: where the images come from, for `own`. `vote`: case or slice.

    `routing_file`: for `route`, a hospital's tuned gates: used where the file exists, else tuned and written.
    """

    gamma: float | None = None
    site: str | None = None
    vote: str = "case"
    routing_file: Path | None = None

    def __post_init__(self) -> None:
        if self.gamma is not None and not 0 <= self.gamma <= 1:
            raise FedSuperError(f"gamma must lie in [0, 1], got {self.gamma}; 0 is never the global model, 1 always")
        if self.vote not in ("case", "slice"):
            raise FedSuperError(f"vote must be case or slice, got '{self.vote}'")


@dataclass
class Outcome:
    """What a mode says of N slices: probabilities `[N, R, S, S]`, the model behind each, the selector's probabilities.

    `details` may explain each slice further (routing weights, adaptation losses) in plain JSON.
    """

    probabilities: torch.Tensor
    chosen: list[str]
    selector: torch.Tensor | None = None
    details: list[dict[str, Any]] = field(default_factory=list)


class Mode:
    """Base of all modes. A mode that tunes itself on a site's unlabelled images sets `adapts` and writes `prepare`."""

    adapts = False

    def __init__(self, predictor: Predictor, options: ModeOptions) -> None:
        self.predictor = predictor
        self.options = options

    @property
    def gamma(self) -> float | None:
        """The threshold in force, None where the mode has none."""
        return None

    def prepare(self, cases: Iterable[torch.Tensor]) -> None:
        """See all of a site's prepared images, `[Z, C, S, S]` each, before the first of them is predicted."""

    def told_sites(self, batch: SliceBatch) -> torch.Tensor | None:
        """The selector's probabilities for the record, None without a selector."""
        return batch.selector() if self.predictor.super_model.selector is not None else None

    def predict(self, batch: SliceBatch) -> Outcome:
        """Probabilities and explanation for every slice of the batch."""
        raise TypeError(f"{type(self).__name__} must define predict")


class Fixed(Mode):
    """One model for every image."""

    def expert(self) -> str:
        """The model's name."""
        raise TypeError(f"{type(self).__name__} must define expert")

    def predict(self, batch: SliceBatch) -> Outcome:
        name = self.expert()
        return Outcome(batch.logits(name).sigmoid(), [name] * len(batch), self.told_sites(batch))


class Global(Fixed):
    """The global model."""

    def expert(self) -> str:
        return GLOBAL


class Own(Fixed):
    """The personalized model of the site the images come from."""

    def expert(self) -> str:
        if self.options.site is None:
            raise FedSuperError("mode own needs the site the images come from; say --mode site:NAME with one of "
                                f"{', '.join(self.predictor.super_model.personal)}")
        return self.options.site


class Select(Mode):
    """FedSM, Algorithm 2: the model of site argmax_k q_k where max_k q_k > gamma, else the global one."""

    @property
    def gamma(self) -> float:
        if self.options.gamma is not None:
            return self.options.gamma
        found = self.predictor.super_model.manifest.get("gamma")
        return DEFAULT_GAMMA if found is None else float(found)

    def predict(self, batch: SliceBatch) -> Outcome:
        q = batch.selector()
        voted = batch.case_means(q) if self.options.vote == "case" else q
        return _by_expert(batch, self.choose(voted), q)

    def choose(self, q: torch.Tensor) -> list[str]:
        """The model of each row of probabilities."""
        sites = self.predictor.super_model.sites
        picked = gate(q[:, -len(sites):], self.gamma)
        return [GLOBAL if index < 0 else sites[index] for index in picked.tolist()]


class SelectAll(Select):
    """FedSM-extra: argmax over the global model (index 0) and the sites, without a threshold."""

    @property
    def gamma(self) -> None:  # type: ignore[override]
        return None

    def choose(self, q: torch.Tensor) -> list[str]:
        classes = self.predictor.classes
        if GLOBAL not in classes:
            raise FedSuperError("mode select-all needs a selector that knows the global model as a class "
                                "(FedSM-extra); use --mode select")
        return [classes[index] for index in q.argmax(dim=1).tolist()]


class Mix(Mode):
    """The ensemble selector (FedSM, 3.1.1): h = sum_k q_k h_k, a mean of probabilities weighted by the selector."""

    def predict(self, batch: SliceBatch) -> Outcome:
        q = batch.selector()
        weights = (batch.case_means(q) if self.options.vote == "case" else q).float()
        total = torch.zeros(())
        for index, name in enumerate(self.predictor.classes):
            if name in self.predictor.experts:
                total = total + weights[:, index, None, None, None] * batch.logits(name).sigmoid()
        return Outcome(total, ["mix"] * len(batch), q)


class Ensemble(Mode):
    """sigmoid of the mean LOGITS of the personalized models, as in IOP-FL (of the global one if there are none)."""

    def predict(self, batch: SliceBatch) -> Outcome:
        names = score_models(self.predictor)
        mean = torch.stack([batch.logits(name) for name in names]).mean(dim=0)
        return Outcome(mean.sigmoid(), ["ensemble"] * len(batch), self.told_sites(batch))


def score_models(predictor: Predictor) -> list[str]:
    """The models that `ensemble` and `average` run over: the personalized ones, or the global one alone."""
    return [name for name in predictor.experts if name != GLOBAL] or [GLOBAL]


def create_mode(predictor: Predictor, name: str | None = None, options: ModeOptions | None = None) -> Mode:
    """The mode of that name, `site:NAME` included; None is the way of the method that trained the super model."""
    name = name or predictor.super_model.mode
    options = options or ModeOptions()
    if name.startswith(SITE_PREFIX):
        site = name.removeprefix(SITE_PREFIX)
        if site not in predictor.super_model.personal:
            raise FedSuperError(f"mode {name}: no personalized model of '{site}'; there are: "
                                f"{', '.join(predictor.super_model.personal) or 'none'}")
        return Own(predictor, ModeOptions(options.gamma, site, options.vote))
    if name in ("average", "oracle"):
        which = "mean of" if name == "average" else "best (by the label) among"
        raise FedSuperError(f"mode {name} is the {which} the models' scores, a number and not a mask; "
                            "use it with evaluate, or --mode ensemble to predict")
    if name not in MODES:
        raise FedSuperError(f"mode '{name}' is not known; use one of {', '.join(MODES)} or site:NAME")
    module, _, attribute = MODES[name].partition(":")
    return getattr(importlib.import_module(module), attribute)(predictor, options)


def _by_expert(batch: SliceBatch, chosen: list[str], q: torch.Tensor) -> Outcome:
    """Run each expert once, on the slices that chose it."""
    parts: dict[str, torch.Tensor] = {}
    for name in dict.fromkeys(chosen):
        parts[name] = torch.tensor([row for row, choice in enumerate(chosen) if choice == name])
    regions = len(batch.predictor.task.regions)
    probabilities = torch.empty(len(batch), regions, *batch.images.shape[-2:])
    for name, rows in parts.items():
        probabilities[rows] = batch.logits(name, rows).sigmoid()
    return Outcome(probabilities, chosen, q)
