"""Training the selector when every site holds a single class (FedSM, Eq. 2 and Algorithm 1, line 11).

All images of site k carry label k. Local training therefore drifts at once to "always me" and the average of such
drifts is useless. Three ways, `selector.optimizer`:

`server-adam` (default): sites send the mean gradient of the cross-entropy over their epoch at the received weights;
    the server takes one Adam step on the uniform mean of the sites' gradients. By construction that is centralized
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

from fedsuper.core.aggregate import BETAS, EPSILON, adam_step
from fedsuper.core.state import Models, State
from fedsuper.methods.protocol.method import Method, NoKnobs
from fedsuper.methods.protocol.nets import first_selector
from fedsuper.methods.protocol.role import SELECTOR, Role
from fedsuper.methods.protocol.server import Server, Update, zeros_like
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.methods.protocol.upload import Upload
from fedsuper.train.learner import Batch, GradientLearner, Learner
from fedsuper.train.optimizers import Adam

FIRST_MOMENT, SECOND_MOMENT, STEP = "selector-m", "selector-v", "selector-step"


class SelectorLearner(GradientLearner):
    """Sums the epoch's gradient, or (`stepping`) takes an optimizer step per batch.

    `classes` gives the class of every training sample; for FedSM it is the site's label for all of them.
    """

    one_step = True  # either base's step as it is: what makes a step private covers both

    def __init__(self, net: nn.Module, site: SiteRound, classes: torch.Tensor, stepping: bool) -> None:
        optimizer = Adam(net.parameters(), site.study.selector.lr, betas=BETAS, eps=EPSILON)
        super().__init__(SELECTOR, net, optimizer, F.cross_entropy, site.compute)
        self.classes = classes
        self.stepping = stepping

    def objective(self, batch: Batch) -> torch.Tensor:
        with self.compute.autocast():
            logits = self.net(batch.images)
        return F.cross_entropy(logits.float(), self.compute.move(self.classes[batch.index]))

    def step(self, batch: Batch) -> torch.Tensor:
        return Learner.step(self, batch) if self.stepping else super().step(batch)

    def gradient(self) -> State:
        """The mean gradient over all images seen, by name."""
        names = [name for name, _ in self.net.named_parameters()]
        return {name: slope.cpu().contiguous() for name, slope in zip(names, self.mean_gradient(), strict=True)}


class Selector(Method[NoKnobs]):
    """The selector's life in a federation; the other models do not enter, so FedSM needs no extra rounds.

    Attendance: gradients and moments are averaged over those present with equal weights; an absent site's class is not
    trained in that round, and the class of a site that never came has no model behind it and is masked at inference.
    """

    name = "selector"
    paper = "FedSM Eq. 2, Algorithm 1 line 11"
    travels = "s down, s up (server-adam, local) or 3s (synced-moments)"

    @property
    def kind(self) -> str:
        """How it is trained."""
        return self.study.selector.optimizer

    def classes(self, sites: int) -> int:
        """Its outputs: one per site."""
        return sites

    def roles(self) -> list[Role]:
        return [Role(SELECTOR, kind="selector")]

    def start(self, server: Server) -> Models:
        weights = first_selector(self.study, server.task, self.classes(len(server.sites)))
        step = {"step": torch.zeros((), dtype=torch.int64)}
        return {SELECTOR: weights, FIRST_MOMENT: zeros_like(weights), SECOND_MOMENT: zeros_like(weights), STEP: step}

    def no_newcomers(self) -> str | None:
        local = "with selector.optimizer: local the sites keep optimizer state of a head with a row for each first site"
        return local if self.kind == "local" else super().no_newcomers()

    def newcomer(self, server: Server, site: str) -> Models:
        """One more class: what was learned stays, the new rows are those of the first weights of so wide a selector,
        without moments."""
        wider = first_selector(self.study, server.task, self.classes(len(server.sites) + 1))
        return {SELECTOR: _grown(server.models[SELECTOR], wider)} | {
            role: _grown(server.models[role], zeros_like(wider)) for role in (FIRST_MOMENT, SECOND_MOMENT)}

    def downlink(self, server: Server, site: str) -> Models:
        names = [SELECTOR] + ([FIRST_MOMENT, SECOND_MOMENT, STEP] if self.kind == "synced-moments" else [])
        return {name: server.models[name] for name in names}

    def learners(self, site: SiteRound) -> list[Learner]:
        learner = self.learner(site, site.selector(site.received[SELECTOR], self.classes(site.classes)))
        site.restore_optimizer(learner)
        return [learner]

    def learner(self, site: SiteRound, net: nn.Module) -> SelectorLearner:
        """What trains the selector at a site: every image is of the site's own class."""
        return SelectorLearner(net, site, torch.full((len(site.train),), site.label), self.kind == "local")

    def uplink(self, site: SiteRound, learners: Mapping[str, Learner]) -> Models:
        learner = learners[SELECTOR]
        assert isinstance(learner, SelectorLearner)
        if self.kind == "local":
            return {SELECTOR: learner.state()}
        if self.kind == "server-adam":
            return {SELECTOR: learner.gradient()}
        return self._step(site.received, learner.gradient(), int(site.received[STEP]["step"]) + 1)

    def uploads(self, server: Server, site: str, sent: Models) -> dict[str, Upload]:
        """A gradient, or weights with their moments; a second moment is a mean of squares."""
        if self.kind == "server-adam":
            return {SELECTOR: Upload(sent[SELECTOR])}
        declared = super().uploads(server, site, sent)
        if self.kind == "synced-moments":
            declared |= {FIRST_MOMENT: Upload(sent[FIRST_MOMENT]), SECOND_MOMENT: Upload(sent[SECOND_MOMENT], least=0)}
        return declared

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        mean = self.mean(updates, SELECTOR, uniform=self.kind != "local")
        if mean is None:
            return {}
        step = int(server.models[STEP]["step"]) + 1
        counted: Models = {STEP: {"step": torch.tensor(step)}}
        if self.kind == "server-adam":
            return counted | self._step(server.models, mean, step)
        moments = {role: self.mean(updates, role, uniform=True) for role in (FIRST_MOMENT, SECOND_MOMENT)}
        return counted | {SELECTOR: mean} | {role: state for role, state in moments.items() if state is not None}

    def _step(self, models: Models, gradient: State, step: int) -> Models:
        weights, m, v = adam_step(
            models[SELECTOR], gradient, models[FIRST_MOMENT], models[SECOND_MOMENT], step, self.study.selector.lr
        )
        return {SELECTOR: weights, FIRST_MOMENT: m, SECOND_MOMENT: v}


def _grown(now: State, wider: State) -> State:
    """`now`, with the last rows of `wider` where that has more of them."""
    return {name: torch.cat([tensor, wider[name][len(tensor):]]) if tensor.shape != wider[name].shape else tensor
            for name, tensor in now.items()}
