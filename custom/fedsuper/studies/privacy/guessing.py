"""Membership inference: can who holds a model tell whether an image was in its training set?

The attacker has the image with its mask, and the model. It guesses "member" where the model's loss on the image is low
(Yeom et al. 2018): a model that remembers its training images has a lower loss on them than on others of the same kind.

    advantage: AUC of -loss, members against images of the same sites that were held out; 0.5 is guessing

Small sites, many epochs and no augmentation make a model remember; this is close to the worst case.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.core.supermodel import SuperModel
from fedsuper.engines.in_process import run_local, sites_of
from fedsuper.federation.progress import Progress
from fedsuper.federation.site_data import SiteData
from fedsuper.methods.protocol.nets import segmentation_net
from fedsuper.train.device import Compute
from fedsuper.train.loop import predict, region_dice
from fedsuper.train.losses import LOSSES

STUDY = {
    "method": "fedavg", "rounds": 12, "local_epochs": 3, "image_size": 32, "batch_size": 4,
    "optimizer": {"lr": 0.005}, "model": {"channels": [8, 16, 32], "residual_units": 0, "norm": "instance"},
    "augment": {"flip": False, "rotation": 0, "scale": 0, "intensity": 0},
}
# Noise that keeps a model useful gives no epsilon worth the name, noise with a good one leaves no model: both shown.
WAYS: dict[str, dict[str, object]] = {
    "none": {},
    "update, noise 0.01": {"noise": 0.01, "clip": 2.0},
    "update, noise 1": {"noise": 1.0, "clip": 2.0},
    "dp-sgd, noise 0.5": {"noise": 0.5, "clip": 0.5, "mechanism": "dp-sgd"},
    "dp-sgd, noise 4": {"noise": 4.0, "clip": 0.5, "mechanism": "dp-sgd"},
}


@dataclass(frozen=True)
class Guessed:
    """How well members are told from others, what the model is worth, and what was promised."""

    way: str
    advantage: float
    dice: float
    epsilon: float | None


def area_under_curve(members: torch.Tensor, others: torch.Tensor) -> float:
    """P(a member scores above another) + P(they tie) / 2."""
    ahead = (members[:, None] > others[None, :]).double() + 0.5 * (members[:, None] == others[None, :]).double()
    return float(ahead.mean())


def guess(root: Path, folder: Path, way: str, seed: int = 0) -> Guessed:
    """Train one way and attack its global model."""
    study = parse_study({**STUDY, "seed": seed, "privacy": WAYS[way]})
    with Progress(way, None) as progress:
        found = run_local(study, root, folder, progress, threads=1)
    told = [_site(found, study, root, folder, site) for site in sites_of(study, root)]
    members, others, dice = zip(*told, strict=True)
    promise = found.manifest.get("privacy")
    cost = max(promise["epsilon"].values()) if promise else None
    return Guessed(way, area_under_curve(torch.cat(members), torch.cat(others)), sum(dice) / len(dice), cost)


def _site(
    found: SuperModel, study: Study, root: Path, folder: Path, site: str
) -> tuple[torch.Tensor, torch.Tensor, float]:
    """The attacker's scores of a site's training images and of its others, and the test Dice."""
    data = SiteData(site, root, folder / "sites" / site)
    compute = Compute.from_config(study.compute)
    net = segmentation_net(study, data.task())
    assert found.global_model is not None
    net.load_state_dict(found.global_model)
    loss = LOSSES[study.loss]

    def scores(part: str) -> torch.Tensor:
        samples = data.samples(study, part)
        outputs = predict(net, samples.images, compute)
        masks = samples.masks.float()
        return torch.stack([-loss(outputs[i : i + 1], masks[i : i + 1]) for i in range(len(samples))])

    held_out = torch.cat([scores("val"), scores("test")])
    dice = region_dice(net, data.samples(study, "test"), compute)
    return scores("train"), held_out, float(dice.mean())
