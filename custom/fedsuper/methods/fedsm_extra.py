"""FedSM-extra (FedSM 3.1.2, Algorithms 3 and 4): the selector learns which of the finished models serves an image best.

    y_s = argmin_k L(h_k, y),  k = 0 (global), 1..K       Eq. 1, which prints L(h, h_k): a misprint

with the models frozen, so the label of every training image is computed once, without augmentation; of equals the
lowest index, the global model first. Inference: argmax over K+1 classes, no gamma. A site's labels are not all of
one class, so local training collapses less than FedSM's, but `selector.optimizer` applies all the same.
"""

from __future__ import annotations

import torch
from torch import nn

from fedsuper.core.metrics import dice_scores
from fedsuper.core.mode import SELECT_ALL
from fedsuper.core.state import State
from fedsuper.data.prepared.samples import Samples
from fedsuper.methods.parts.selector import SelectorLearner
from fedsuper.methods.parts.two_phases import ExpertSelector, TwoPhases
from fedsuper.methods.protocol.role import Role
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.train.learner import Loss
from fedsuper.train.loop import predict

EXPERTISE = "expertise"


def image_losses(logits: torch.Tensor, masks: torch.Tensor, loss: Loss) -> torch.Tensor:
    """L(h, y) of every image alone, float64 `[N]`."""
    pairs = zip(torch.split(logits, 1), torch.split(masks.to(logits.dtype), 1), strict=True)
    return torch.stack([loss(output, mask).double() for output, mask in pairs])


def best_expert(losses: torch.Tensor) -> torch.Tensor:
    """argmin over the experts of `[experts, N]`; ties go to the lowest index."""
    return losses.argmin(dim=0)


class LabeledSelector(ExpertSelector):
    """Cross-entropy against the best expert of each image.

    The site keeps the labels of its training images and, of its validation images, every expert's loss and Dice: what
    the selector's choice is worth can then be read from a table, and the experts need not be kept.
    """

    def receive(self, site: SiteRound, experts: list[State]) -> None:
        nets = [site.segmentation(state) for state in experts]
        train = [predict(net, site.train.images, site.compute) for net in nets]
        labels = best_expert(torch.stack([image_losses(logits, site.train.masks, site.loss) for logits in train]))
        site.store.models[EXPERTISE] = {"label": labels} | self._table(site, site.val, nets)

    def _table(self, site: SiteRound, samples: Samples, nets: list[nn.Module]) -> State:
        logits = [predict(net, samples.images, site.compute) for net in nets]
        return {
            "val-loss": torch.stack([image_losses(each, samples.masks, site.loss) for each in logits]),
            "val-dice": torch.stack([dice_scores(each > 0, samples.masks).mean(dim=1) for each in logits]),
        }

    def learner(self, site: SiteRound, net: nn.Module) -> SelectorLearner:
        return SelectorLearner(net, site, site.store.models[EXPERTISE]["label"], self.kind == "local")

    def score(self, site: SiteRound, role: Role, state: State) -> dict[str, float]:
        """The Dice its choices reach on validation images, and how often they are the best expert."""
        known = site.store.models[EXPERTISE]
        net = site.selector(state, self.classes(site.classes))
        chosen = predict(net, site.val.images, site.compute).argmax(dim=1)
        reached = known["val-dice"].gather(0, chosen[None]).mean()
        agreement = (chosen == best_expert(known["val-loss"])).double().mean()
        return {f"val/{role.name}": float(reached), f"val-agreement/{role.name}": float(agreement)}


class FedSMExtra(TwoPhases):
    """Phase 1 as FedSM without a selector, phase 2 for the selector alone."""

    name = "fedsm-extra"
    paper = "FedSM Algorithms 3 and 4"
    travels = "2w down and up; then K+1 models down once, s down and up"
    keeps = "optimizer state; in phase 2 its images' labels"
    mode = SELECT_ALL
    selector_kind = LabeledSelector
