"""`monai.bundle run`: a folder of images through a bundle's own nets, with the images read and written by FedSuper.

All that decides a mask comes from the bundle: the weights, the selector's program, `export.json`. So this is also the
proof that an export is complete.
"""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedsuper.core.mode import GLOBAL, MIX
from fedsuper.core.validated.one_piece import largest_pieces
from fedsuper.data.images.io import read_image
from fedsuper.data.images.masks import write_mask
from fedsuper.data.preprocess import Preprocess, prepare_image, regions_to_labels, restore_probabilities
from fedsuper.errors import FedSuperError
from fedsuper.files import read_json
from fedsuper.inference.export.programs import with_flips
from fedsuper.inference.norm_statistics import use_test_statistics
from fedsuper.inference.passes import run_passes
from fedsuper.inference.predict.inputs import find_images, plan
from fedsuper.train.device import Compute
from fedsuper.train.loop import predict as forward

logger = logging.getLogger(__name__)


def segment_folder(
    bundle_root: str, network: nn.Module, images: str, out: str, selector: nn.Module | None = None,
    device: torch.device | str = "cpu", model: str = GLOBAL, choose: bool = True,
) -> list[Path]:
    """Write a mask to `out` for every image behind `images`; returns the masks.

    `choose` lets the super model's own mode pick a model for each image; otherwise the file `model` of `models/`,
    without its ending, answers for all of them. An image that cannot be read is told and left out.
    """
    target = Path(out)
    if target.exists() and any(target.iterdir()):
        raise FedSuperError(f"output_dir {target}: already holds something; name a new or an empty folder")
    bundle = _Bundle(Path(bundle_root), network, selector if choose else None, torch.device(device))
    fixed = None if choose else bundle.position(model)
    found, problems = find_images([Path(images)])
    written = []
    for job in plan(found):
        try:
            image = read_image(job.image)
            prepared = prepare_image(image, bundle.preprocess, bundle.told["channels"])
            probabilities = largest_pieces(bundle.probabilities(prepared, fixed), bundle.one_piece)
            labels = regions_to_labels(restore_probabilities(probabilities, image.size), bundle.told["regions"])
            write_mask(target / job.mask, labels, image)
            written.append(target / job.mask)
        except FedSuperError as problem:
            problems.append(str(problem))
    for line in problems:
        logger.warning(line)
    if not written:
        raise FedSuperError(f"dataset_dir {images}: no image could be segmented; the first problem: {problems[0]}")
    return written


class _Bundle:
    """The nets of a bundle, each loaded when it is first needed."""

    def __init__(self, root: Path, network: nn.Module, selector: nn.Module | None, device: torch.device) -> None:
        self.root = root
        self.told: dict[str, Any] = read_json(root / "export.json", "export the super model again")
        self.preprocess = Preprocess.model_validate(self.told["preprocess"])
        self.files = list(self.told["models"].values())
        cleaned = self.told.get("one_piece", [])
        self.one_piece = [place for place, region in enumerate(self.told["regions"]) if region in cleaned]
        if self.told["prediction"]["tta"] and "flips" not in self.told:
            raise FedSuperError(f"{root / 'export.json'}: asks for test-time augmentation and does not name its flips; "
                                "export the super model again")
        self.flips = self.told.get("flips", [[]])
        self.network = network
        self.selector = selector
        self.compute = Compute(device)
        self.nets: dict[int, nn.Module] = {}

    def position(self, stem: str) -> int:
        """Where the file `stem` stands among the models."""
        stems = [Path(file).stem for file in self.files]
        if stem not in stems:
            raise FedSuperError(f"model {stem}: is not in this bundle; it has {', '.join(stems)}")
        return stems.index(stem)

    @torch.no_grad()
    def probabilities(self, images: torch.Tensor, fixed: int | None = None) -> torch.Tensor:
        """Probabilities `[Z, R, S, S]` of one image, by the model at `fixed` or as the super model's mode has it."""
        if fixed is not None:
            return self._said(fixed, images)
        names, mode = list(self.told["models"]), self.told["mode"]
        if self.selector is not None and mode == MIX:
            q = self.selector(images)[0].float()
            weights = dict(zip(self.told["selector_classes"], q, strict=True))
            return torch.stack([weights[name] * self._said(place, images) for place, name in enumerate(names)]).sum(0)
        if self.selector is not None and self.told["gate"] is not None:
            return self._said(int(self.selector(images)[1]), images)
        if mode != GLOBAL:
            raise FedSuperError(f"this super model (mode {mode}) chooses no model by itself; "
                                "say --choose False --model NAME with a file of models/")
        return self._said(names.index(GLOBAL), images)

    def _said(self, place: int, images: torch.Tensor) -> torch.Tensor:
        # As the predictor does it: passes that share statistics hold an image's own slices and nothing else.
        run = forward if self.told["prediction"]["norm_statistics"] == "batch" else run_passes
        return run(self._net(place), images, self.compute).sigmoid()

    def _net(self, place: int) -> nn.Module:
        from safetensors.torch import load_file

        if place < 0:
            raise FedSuperError("the selector asks for the global model, which this super model does not have; "
                                "say --choose False --model NAME with a file of models/")
        if place not in self.nets:
            net = copy.deepcopy(self.network)
            net.load_state_dict(load_file(self.root / self.files[place]))
            net = use_test_statistics(net, self.told["prediction"]["norm_statistics"])
            self.nets[place] = self.compute.place_net(with_flips(net, self.flips)).eval()
        return self.nets[place]
