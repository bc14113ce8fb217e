"""The ensemble selector (FedSM 3.1.1): the selector weighs the outputs of all finished models.

    h = sum_k q_k h_k,   q = softmax(f_s(x)),   h_k probabilities,   L(h, y) for w_s alone, FedAvg on w_s

The experts h_k are frozen: no gradient reaches them. With a one-hot q the output is that expert's; where all
experts agree it does not depend on q, so there the selector has nothing to learn from (the paper's "training
difficulty").
"""

from __future__ import annotations

import torch
from torch import nn

from fedsuper.core.metrics import dice_scores
from fedsuper.core.mode import MIX
from fedsuper.core.state import State, clone
from fedsuper.methods.parts.selector import SelectorLearner
from fedsuper.methods.parts.two_phases import ExpertSelector, TwoPhases
from fedsuper.methods.protocol.role import Role
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.train.learner import Batch
from fedsuper.train.loop import predict

FROZEN = "frozen/"


def mixture(weights: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
    """sum_k q_k h_k of weights `[N, experts]` and probabilities `[experts, N, R, H, W]`."""
    return torch.einsum("nk,knrhw->nrhw", weights, outputs)


class MixingLearner(SelectorLearner):
    """The segmentation loss of the mixture; the experts see the same augmented batch."""

    experts: list[nn.Module]

    def objective(self, batch: Batch) -> torch.Tensor:
        with self.compute.autocast():
            with torch.no_grad():
                outputs = torch.stack([expert(batch.images).float().sigmoid() for expert in self.experts])
            weights = self.net(batch.images).float().softmax(dim=1)
        return self.loss(torch.logit(mixture(weights, outputs), eps=1e-6), batch.masks)


class MixingSelector(ExpertSelector):
    """Trained through the mixture's loss; the site keeps the experts."""

    def receive(self, site: SiteRound, experts: list[State]) -> None:
        site.store.models |= {f"{FROZEN}{index}": clone(state) for index, state in enumerate(experts)}

    def learner(self, site: SiteRound, net: nn.Module) -> SelectorLearner:
        learner = MixingLearner(net, site, torch.empty(0), self.kind == "local")
        learner.loss = site.loss
        learner.experts = [expert.eval() for expert in self._experts(site)]
        return learner

    def score(self, site: SiteRound, role: Role, state: State) -> dict[str, float]:
        """The Dice of the mixture on validation images."""
        net = site.selector(state, self.classes(site.classes))
        images = site.val.images
        weights = predict(net, images, site.compute).softmax(dim=1)
        outputs = torch.stack([predict(expert, images, site.compute).sigmoid() for expert in self._experts(site)])
        reached = dice_scores(mixture(weights, outputs) > 0.5, site.val.masks)
        return {f"val/{role.name}": float(reached.mean(dim=0).mean())}

    def _experts(self, site: SiteRound) -> list[nn.Module]:
        count = self.classes(site.classes)
        return [site.segmentation(site.store.models[f"{FROZEN}{index}"]) for index in range(count)]


class FedSMEnsemble(TwoPhases):
    """Phase 1 as FedSM without a selector, phase 2 for the weights of the ensemble."""

    name = "fedsm-ensemble"
    paper = "FedSM section 3.1.1"
    travels = "2w down and up; then K+1 models down once, s down and up"
    keeps = "optimizer state; in phase 2 the K+1 frozen models"
    mode = MIX
    selector_kind = MixingSelector
