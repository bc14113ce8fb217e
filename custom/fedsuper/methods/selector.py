"""Training the selector when every site holds a single class (FedSM, Eq. 2 and Algorithm 1, line 11).

All images of site k carry label k. Local training therefore drifts at once to "always me" and the average of such
drifts is useless. Three ways, `selector.optimizer`:

`server-adam` (default): sites send the mean gradient of the cross-entropy over their epoch at the received weights;
    the server takes one Adam step on the uniform mean of the sites' gradients. By construction that is centralised
    training with balanced classes, and it costs one selector up and one down.
`synced-moments`: each site takes one full-batch Adam step from the server's weights and moments; weights and moments
    are averaged uniformly (the idea of the public FedSM code, three selectors up and down).
`local`: Algorithm 1 as printed: a local Adam step per batch, weights averaged by sample count. Collapses.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import nn

from fedsuper.core.aggregate import weighted_mean
from fedsuper.core.state import Models, State
from fedsuper.methods.base import SELECTOR, Method, Role
from fedsuper.methods.server import Server, Update, mean_by_samples, zeros_like
from fedsuper.methods.site import Site
from fedsuper.train.learner import Batch, Learner

FIRST_MOMENT, SECOND_MOMENT, STEP = "selector-m", "selector-v", "selector-step"
BETAS, EPSILON = (0.9, 0.999), 1e-8


class GradientLearner(Learner):
    """Accumulates the epoch's mean gradient at fixed weights instead of stepping.

    `targets` gives the class of each image; for FedSM it is the site's label for all of them.
    """

    def __init__(self, role: str, net: nn.Module, optimizer: torch.optim.Optimizer, site: Site) -> None:
        super().__init__(role, net, optimizer, F.cross_entropy, site.compute)
        self.label = site.label
        self.images = 0

    def cross_entropy(self, batch: Batch) -> torch.Tensor:
        """Summed cross-entropy of the batch against the site's own label."""
        with self.compute.autocast():
            logits = self.net(batch.images)
        target = torch.full((len(logits),), self.label, device=logits.device)
        return F.cross_entropy(logits.float(), target, reduction="sum")

    def step(self, batch: Batch) -> float:
        value = self.cross_entropy(batch)
        value.backward()
        self.images += len(batch.images)
        self.steps += 1
        return float(value.detach()) / len(batch.images)

    def gradient(self) -> State:
        """The mean gradient over all images seen; parameters without one get zeros."""
        return {
            name: (torch.zeros_like(p) if p.grad is None else p.grad / max(self.images, 1)).detach().cpu().contiguous()
            for name, p in self.net.named_parameters()
        }


class SteppingLearner(GradientLearner):
    """`local`: an optimizer step per batch."""

    def step(self, batch: Batch) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        value = self.cross_entropy(batch) / len(batch.images)
        value.backward()
        self.optimizer.step()
        self.steps += 1
        return float(value.detach())


def adam_step(weights: State, gradient: State, m: State, v: State, step: int, lr: float) -> tuple[State, State, State]:
    """One Adam step in float64: m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2, w <- w - lr m^ / (sqrt(v^) + eps)."""
    new_w, new_m, new_v = dict(weights), dict(m), dict(v)
    for name, g in gradient.items():
        first = BETAS[0] * m[name].double() + (1 - BETAS[0]) * g.double()
        second = BETAS[1] * v[name].double() + (1 - BETAS[1]) * g.double().square()
        corrected = first / (1 - BETAS[0] ** step)
        scale = (second / (1 - BETAS[1] ** step)).sqrt() + EPSILON
        new_w[name] = (weights[name].double() - lr * corrected / scale).to(weights[name].dtype)
        new_m[name], new_v[name] = first.to(g.dtype), second.to(g.dtype)
    return new_w, new_m, new_v


class Selector(Method):
    """The selector's life in a federation; the other models do not enter, so FedSM needs no extra rounds."""

    name = "selector"
    paper = "FedSM Eq. 2, Algorithm 1 line 11"
    travels = "s down, s up (server-adam, local) or 3s (synced-moments)"
    learner_kinds: Mapping[str, type[GradientLearner]] = {
        "server-adam": GradientLearner, "synced-moments": GradientLearner, "local": SteppingLearner,
    }

    def roles(self) -> list[Role]:
        return [Role(SELECTOR, kind="selector")]

    def start(self, server: Server) -> Models:
        models = super().start(server)
        moments = zeros_like(models[SELECTOR])
        step = {"step": torch.zeros((), dtype=torch.int64)}
        return models | {FIRST_MOMENT: moments, SECOND_MOMENT: dict(moments), STEP: step}

    def downlink(self, server: Server, site: str) -> Models:
        names = [SELECTOR]
        if self.study.selector.optimizer == "synced-moments":
            names += [FIRST_MOMENT, SECOND_MOMENT, STEP]
        return {name: server.models[name] for name in names}

    def learners(self, site: Site) -> list[Learner]:
        net = site.selector(site.received[SELECTOR])
        optimizer = torch.optim.Adam(net.parameters(), self.study.selector.lr, betas=BETAS)
        return [self.learner_kinds[self.study.selector.optimizer](SELECTOR, net, optimizer, site)]

    def uplink(self, site: Site, learners: Mapping[str, Learner]) -> Models:
        learner = learners[SELECTOR]
        assert isinstance(learner, GradientLearner)
        if self.study.selector.optimizer == "local":
            return {SELECTOR: learner.state()}
        if self.study.selector.optimizer == "server-adam":
            return {SELECTOR: learner.gradient()}
        step = int(site.received[STEP]["step"]) + 1
        weights, m, v = adam_step(
            site.received[SELECTOR], learner.gradient(), site.received[FIRST_MOMENT], site.received[SECOND_MOMENT],
            step, self.study.selector.lr,
        )
        return {SELECTOR: weights, FIRST_MOMENT: m, SECOND_MOMENT: v}

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        states, samples = mean_by_samples(updates, SELECTOR)
        if not states:
            return {}
        kind = self.study.selector.optimizer
        step = int(server.models[STEP]["step"]) + 1
        counted: Models = {STEP: {"step": torch.tensor(step)}}
        if kind == "local":
            return counted | {SELECTOR: weighted_mean(states, samples)}
        uniform = [1.0] * len(states)
        if kind == "server-adam":
            weights, m, v = adam_step(
                server.models[SELECTOR], weighted_mean(states, uniform),
                server.models[FIRST_MOMENT], server.models[SECOND_MOMENT], step, self.study.selector.lr,
            )
            return counted | {SELECTOR: weights, FIRST_MOMENT: m, SECOND_MOMENT: v}
        roles = (SELECTOR, FIRST_MOMENT, SECOND_MOMENT)
        return counted | {role: weighted_mean(mean_by_samples(updates, role)[0], uniform) for role in roles}
