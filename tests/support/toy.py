"""A federation of linear least-squares problems in float64, run through the real methods, learners and epoch loop.

Site k minimizes f_k(w) = mean_i |w x_i + b - y_i|^2 / 2 with a 1x1 convolution on 1x1 images, or any other small net.
The batch is the whole data set, augmentation is off and the optimizer is SGD unless a test says otherwise, so what a
method should compute can be written down.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
import torch
from torch import nn

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.core.state import Models, State, clone
from fedsuper.core.supermodel import GLOBAL, SuperModel
from fedsuper.data.dataset import concat
from fedsuper.data.prepared.samples import Samples
from fedsuper.data.task import Task
from fedsuper.methods import create_method
from fedsuper.methods.protocol import nets
from fedsuper.methods.protocol.method import Method
from fedsuper.methods.protocol.phases import round_is_due
from fedsuper.methods.protocol.server import Server, Update
from fedsuper.methods.protocol.site_round import SiteRound, SiteStore
from fedsuper.train.device import Compute
from fedsuper.train.learner import Loss

INPUTS = 3
SIZES = (12, 20, 28)


def half_square(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The loss of every toy problem; its Hessian is the inputs' second moment."""
    return (outputs - targets).square().sum(dim=1).mean() / 2


def linear_net() -> nn.Module:
    """w x + b as a 1x1 convolution, from fixed first weights."""
    torch.manual_seed(0)
    return nn.Conv2d(INPUTS, 1, 1).double()


def two_layer_net() -> nn.Module:
    """A body with a norm layer and a head."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(INPUTS, 4, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 1, 1)).double()


def samples(seed: int, count: int) -> Samples:
    """A noisy linear problem; every seed is another site with another solution."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(count, INPUTS, 1, 1, generator=random, dtype=torch.float64) * torch.tensor([1.0, 0.7, 1.3]).view(
        1, -1, 1, 1
    )
    true = torch.randn(1, INPUTS, 1, 1, generator=random, dtype=torch.float64)
    y = (
        (x * true).sum(dim=1, keepdim=True)
        + 0.1 * torch.randn(count, 1, 1, 1, generator=random, dtype=torch.float64)
        + seed
    )
    return Samples(x, y, [f"image-{index}" for index in range(count)], [f"case-{index}" for index in range(count)])


def pooled(parts: list[Samples]) -> Samples:
    """All sites' data in one place."""
    return concat(parts)


class ToySite(SiteRound):
    """A site whose loss is the half square and whose score is minus that loss."""

    @property
    def loss(self) -> Loss:
        return half_square

    @torch.no_grad()
    def dice(self, state: State) -> float:
        return -float(half_square(self.segmentation(state).eval()(self.val.images), self.val.masks))


class Toy:
    """Runs a method round by round, as the federation does, and shows everything it holds."""

    def __init__(self, study: Study, data: list[Samples]) -> None:
        self.method: Method = create_method(study)
        self.study = study
        self.data = {f"site-{index}": part for index, part in enumerate(data)}
        self.task = Task.from_json({"task": "toy", "channels": INPUTS, "regions": {"all": [1]}})
        counts = {name: len(part.images) for name, part in self.data.items()}
        self.server = Server(study=study, task=self.task, sites=list(self.data), samples=counts)
        self.server.models = self.method.start(self.server)
        self.first = clone(self.server.models[GLOBAL]) if GLOBAL in self.server.models else {}
        self.stores = {name: SiteStore() for name in self.data}
        self.uploads: dict[str, Models] = {}

    @property
    def acting(self) -> Method:
        """Who acts in the present phase."""
        return self.method.during(self.server.phase)

    def site(self, name: str) -> ToySite:
        """One site as it would see the coming round."""
        return ToySite(
            name=name,
            label=self.server.label(name),
            classes=len(self.data),
            round=self.server.round + 1,
            study=self.study,
            task=self.task,
            train=self.data[name],
            val=self.data[name],
            compute=Compute(torch.device("cpu")),
            store=self.stores[name],
            received=self.acting.downlink(self.server, name),
        )

    def round(self, absent: Collection[str] = ()) -> None:
        """One round without the sites in `absent`."""
        present = [name for name in self.data if name not in absent]
        self.uploads = {name: self.acting.local_update(self.site(name)) for name in present}
        updates = {name: Update(models, len(self.data[name].images)) for name, models in self.uploads.items()}
        self.server.models |= self.acting.aggregate(self.server, updates)
        self.server.round += 1
        self.server.accepted |= dict.fromkeys(present, self.server.round)
        round_is_due(self.server, self.method.phases())

    def rounds(self, count: int) -> Toy:
        """Several rounds with everybody present."""
        for _ in range(count):
            self.round()
        return self

    def finish(self) -> SuperModel:
        """The end of a study: last local work, the best of what sites hold, the super model."""
        for name in self.data:
            site = self.site(name)
            self.acting.final_update(site)
            shown = self.acting.candidates(site)
            for role in self.method.roles():
                if role.holder == "site" and role.name in shown:
                    site.keep_best(role.name, site.dice(shown[role.name]), shown[role.name])
                    self.server.best_models[role.key(name)] = site.best(role.name) or {}
        return self.method.super_model(self.server)

    @property
    def weights(self) -> torch.Tensor:
        """The global model as a vector."""
        return vector(self.server.models[GLOBAL])

    def stored(self, role: str, site: str = "site-0") -> torch.Tensor:
        """A model that a site holds, as a vector."""
        return vector(self.stores[site].models[role])

    @property
    def shares(self) -> list[float]:
        """p_k = n_k / n."""
        total = sum(len(part.images) for part in self.data.values())
        return [len(part.images) / total for part in self.data.values()]


def vector(state: State) -> torch.Tensor:
    """The floating entries of a state, one after the other."""
    return torch.cat([tensor.reshape(-1) for tensor in state.values() if tensor.is_floating_point()])


def optimum(data: Samples) -> torch.Tensor:
    """The least-squares solution as (w, b)."""
    x = torch.cat([data.images.flatten(1), torch.ones(len(data.images), 1, dtype=torch.float64)], dim=1)
    return torch.linalg.lstsq(x, data.masks.flatten(1)).solution.flatten()


def gradient(weights: torch.Tensor, data: Samples) -> torch.Tensor:
    """grad f at (w, b)."""
    x = torch.cat([data.images.flatten(1), torch.ones(len(data.images), 1, dtype=torch.float64)], dim=1)
    return x.T @ (x @ weights - data.masks.flatten()) / len(x)


def hessian(data: Samples) -> torch.Tensor:
    """The Hessian of f, constant."""
    x = torch.cat([data.images.flatten(1), torch.ones(len(data.images), 1, dtype=torch.float64)], dim=1)
    return x.T @ x / len(x)


MakeToy = Callable[..., Toy]


def use_net(monkeypatch: pytest.MonkeyPatch, build: Callable[[], nn.Module]) -> None:
    """Every segmentation net of a study is `build()` from here on."""

    def forked(*_: Any) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            return build()

    monkeypatch.setattr(nets, "segmentation_net", forked)
    monkeypatch.setattr(nets, "blueprint", forked)


def make_toy(
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    knobs: dict[str, Any] | None = None,
    data: list[Samples] | None = None,
    net: Callable[[], nn.Module] = linear_net,
    lr: float = 0.1,
    optimizer: str = "sgd",
    state: str = "keep",
    **study: Any,
) -> Toy:
    """A toy federation for one method."""
    use_net(monkeypatch, net)
    raw = {
        "method": method,
        "rounds": 100,
        "batch_size": 10**6,
        "optimizer": {"name": optimizer, "lr": lr, "state": state},
        "augment": {"flip": False, "rotation": 0, "scale": 0, "intensity": 0},
        **study,
    }
    if knobs is not None:
        raw[method] = knobs
    return Toy(parse_study(raw), data or [samples(index, size) for index, size in enumerate(SIZES)])
