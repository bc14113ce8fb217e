"""The super model at work: nets rebuilt from the manifest, images in, masks in the images' own grid out."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import nn

from fedsuper.config.reading import parse_study
from fedsuper.core.mode import GLOBAL, WITH_GLOBAL_CLASS
from fedsuper.core.state import State, clone
from fedsuper.core.supermodel import SuperModel
from fedsuper.core.validated.one_piece import largest_pieces
from fedsuper.core.validated.selection_choice import BOTH, STATISTICS, TRAINED
from fedsuper.data.augment.settings import shown_flips
from fedsuper.data.images.io import Image
from fedsuper.data.preprocess import Preprocess, prepare_image, regions_to_labels, restore_probabilities
from fedsuper.data.task import Task
from fedsuper.errors import FedSuperError
from fedsuper.inference.norm_statistics import use_test_statistics
from fedsuper.inference.passes import run_passes
from fedsuper.inference.selection.closed_form import required_discriminant, selection_of
from fedsuper.models.build import build_segmentation, build_selector
from fedsuper.models.features import ImageFeatures
from fedsuper.models.selector_statistics import MeanSelector, StatisticsSelector
from fedsuper.train.device import Compute
from fedsuper.train.loop import predict as forward

# Nets held ready at the same time: those of a usual federation. One of fifty sites takes no more memory than this.
MOST_NETS = 8


class Predictor:
    """A super model ready to predict on one device; a net is built when it is first needed."""

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
        self._building = threading.RLock()  # several threads may predict with one predictor
        self._nets: OrderedDict[str, nn.Module] = OrderedDict()
        self.selection = selection_of(super_model)
        self.one_piece = _cleaned_regions(super_model, self.study.prediction.one_piece, list(self.task.regions))
        self._selectors: dict[str, nn.Module] = {}

    @property
    def classes(self) -> list[str]:
        """What the selector's outputs stand for."""
        first = [GLOBAL] if self.super_model.mode in WITH_GLOBAL_CLASS else []
        return first + self.super_model.sites

    @property
    def channels(self) -> int:
        """Input planes of the nets: image channels times context slices."""
        return self.task.channels * self.study.preprocess.slices

    @property
    def flips(self) -> tuple[tuple[int, ...], ...]:
        """The flips that a prediction is the mean over: with `prediction.tta` those that training showed."""
        return shown_flips(self.study.augment) if self.study.prediction.tta else ((),)

    def prepare(self, image: Image) -> torch.Tensor:
        """The nets' input for an image, `[Z, C, S, S]`."""
        return prepare_image(image, self.preprocess, self.task.channels)

    def check_has(self, expert: str) -> None:
        """Refuse what needs a model that this super model does not hold."""
        if expert not in self.experts:
            raise FedSuperError(f"this super model has no model '{expert}'; it has {', '.join(self.experts)}")

    def check_selector(self) -> State:
        """The selector's weights; refuse what needs them where there are none."""
        if self.super_model.selector is None:
            raise FedSuperError(f"this super model ({self.super_model.manifest.get('method')}) has no selector; "
                                "use --mode global, ensemble or site:NAME")
        return self.super_model.selector

    def build(self, expert: str) -> nn.Module:
        """A fresh net with the weights of `expert`, on the device; the caller may change it."""
        self.check_has(expert)
        return self._with_weights(clone(self.experts[expert]), expert)

    def net(self, expert: str) -> nn.Module:
        """The shared net of `expert`, not to be changed; of many only those used last are kept."""
        with self._building:
            if expert not in self._nets:
                self.check_has(expert)
                net = self._with_weights(self.experts[expert], expert)
                self._nets[expert] = use_test_statistics(net, self.study.prediction.norm_statistics)
            self._nets.move_to_end(expert)
            while len(self._nets) > MOST_NETS:
                self._nets.popitem(last=False)
            return self._nets[expert]

    def logits(self, expert: str, images: torch.Tensor) -> torch.Tensor:
        """Logits `[N, R, S, S]` of one expert for prepared slices; the mean over `flips`."""
        net = self.net(expert)
        # Passes that share statistics hold an image's own slices and nothing to fill them up.
        if self.study.prediction.norm_statistics == "batch":
            run = partial(forward, net, compute=self.compute)
        else:
            run = partial(run_passes, net, compute=self.compute)
        return mean_over_flips(run, images, self.flips)

    def feature_net(self) -> ImageFeatures:
        """phi: read with the global model's first convolutions, with the first site's where there is no global one."""
        net = ImageFeatures(self.build(next(iter(self.experts))))
        self.compute.place_net(net)
        return net

    def selector(self, kind: str | None = None) -> nn.Module:
        """The selector's net, not to be changed; `kind` names another than the one in force."""
        state, kind = self.check_selector(), kind or self.selection.kind
        with self._building:
            if kind not in self._selectors:
                self._selectors[kind] = self._make_selector(state, kind)
            return self._selectors[kind]

    def _make_selector(self, state: State, kind: str) -> nn.Module:
        if kind == STATISTICS:
            closed = StatisticsSelector(self.feature_net(), required_discriminant(self.super_model))
            return self.compute.place_net(closed).eval()
        if kind == BOTH:
            return MeanSelector(self.selector(TRAINED), self.selector(STATISTICS)).eval()
        with torch.device("meta"):
            net = build_selector(self.study.selector, self.channels, len(self.classes))
        return self._place(net, clone(state), "selector")

    def selector_probabilities(
        self, images: torch.Tensor, kind: str | None = None, elsewhere: bool = False
    ) -> torch.Tensor:
        """q = softmax(f_s(x)) as float64 `[N, classes]`; a class without a model cannot be chosen and gets 0.

        With `elsewhere` a class whose model was only not handed over to this site (the manifest names it) keeps its
        probability: a selector that knows two classes alone would be sure of everything.
        """
        logits = run_passes(self.selector(kind), images, self.compute).double()
        there = {*self.experts, *(self.super_model.manifest.get("elsewhere", ()) if elsewhere else ())}
        absent = [index for index, name in enumerate(self.classes) if name not in there]
        if len(absent) < len(self.classes):
            logits[:, absent] = -torch.inf
        return logits.softmax(dim=1)

    def restore(self, probabilities: torch.Tensor, size: tuple[int, int]) -> tuple[np.ndarray, torch.Tensor]:
        """Label map `[Z, H, W]` and probabilities `[Z, R, H, W]` at `size`, from probabilities at the nets' size.

        Regions of which validation showed that the largest piece serves better lose their islands.
        """
        native = restore_probabilities(largest_pieces(probabilities, self.one_piece), size)
        return regions_to_labels(native, self.task.regions), native

    def _with_weights(self, state: State, name: str) -> nn.Module:
        with torch.device("meta"):  # no first weights are drawn that the expert's would replace
            net = build_segmentation(self.study.model, self.channels, len(self.task.regions))
        return self._place(net, state, name)

    def _place(self, net: nn.Module, state: State, name: str) -> nn.Module:
        """The net with these very tensors, not copies of them."""
        try:
            net.load_state_dict(state, assign=True)
        except RuntimeError as error:
            raise misfit(name, " ".join(str(error).split())[:160]) from None
        return self.compute.place_net(net.float()).eval()


def mean_over_flips(
    run: Callable[[torch.Tensor], torch.Tensor], images: torch.Tensor, flips: Sequence[Sequence[int]]
) -> torch.Tensor:
    """Test-time augmentation: the mean of f(x flipped), flipped back; a flip is its own inverse."""
    if len(flips) == 1:
        return run(images)
    return torch.stack([run(images.flip(tuple(axes))).flip(tuple(axes)) for axes in flips]).mean(dim=0)


def _cleaned_regions(super_model: SuperModel, switch: str, regions: list[str]) -> list[int]:
    """The places of the regions that lose their islands: as validation chose (`auto`), none, or all."""
    chosen = {"auto": super_model.manifest.get("one_piece") or [], "off": [], "on": regions}[switch]
    return [place for place, region in enumerate(regions) if region in chosen]


def misfit(name: str, how: str) -> FedSuperError:
    """The error of weights that are not those of the study's net."""
    return FedSuperError(f"super model: the weights of '{name}' do not fit the study's net ({how}); "
                         "the folder mixes two runs: copy it again")
