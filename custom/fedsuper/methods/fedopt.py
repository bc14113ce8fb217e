"""FedOpt (Reddi et al. 2021): the server takes an optimizer's step along what the sites changed, instead of their mean.

With the pseudo-gradient g = w_g - sum_k p_k w_k over trainable parameters:

    momentum (FedAvgM, Hsu et al. 2019)   m <- b1 m + g                    w_g <- w_g - eta m
    adam     (FedAdam)                    m <- b1 m + (1 - b1) g           w_g <- w_g - eta m / (sqrt(v) + tau)
                                          v <- v - (1 - b2) (v - g^2)
    yogi     (FedYogi)                    as adam with                     v <- v - (1 - b2) g^2 sign(v - g^2)

without bias correction, as printed; v starts at tau^2. `momentum` with b1 = 0 and eta = 1 is FedAvg. Buffers are
averaged as in FedAvg: a step could turn a running variance negative.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field

from fedsuper.config import Strict
from fedsuper.core.state import Models, State
from fedsuper.methods.fedavg import FedAvg
from fedsuper.methods.protocol.nets import trainable
from fedsuper.methods.protocol.server import Server, Update, zeros_like

FIRST, SECOND = "fedopt-m", "fedopt-v"
STEP_LENGTHS = {"momentum": 1.0, "adam": 0.01, "yogi": 0.01}


class FedOptKnobs(Strict):
    """`lr` null: 1 for momentum, .01 for adam and yogi; `tau` bounds their step where nothing changes."""

    optimizer: Literal["adam", "yogi", "momentum"] = "adam"
    lr: float | None = Field(None, gt=0)
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.99, ge=0, lt=1)
    tau: float = Field(0.001, gt=0)


class FedOpt(FedAvg[FedOptKnobs]):
    """Sites train as in FedAvg. Attendance: g is taken over those present; moments stay where nobody came."""

    name = "fedopt"
    paper = "Reddi et al. 2021; Hsu et al. 2019"
    Knobs = FedOptKnobs

    def start(self, server: Server) -> Models:
        models = super().start(server)
        zero = zeros_like(trainable(self.study, models[self.shared]))
        return models | {FIRST: zero, SECOND: {name: tensor + self.knobs.tau**2 for name, tensor in zero.items()}}

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        found = super().aggregate(server, updates)
        if not found:
            return {}
        mean, old = found[self.shared], server.models[self.shared]
        first: State = {}
        second: State = {}
        moved: State = {}
        for name, before in server.models[FIRST].items():
            g = old[name].double() - mean[name].double()
            m, v = self._moments(before.double(), server.models[SECOND][name].double(), g)
            step = m if self.knobs.optimizer == "momentum" else m / (v.sqrt() + self.knobs.tau)
            length = self.knobs.lr or STEP_LENGTHS[self.knobs.optimizer]
            moved[name] = (old[name].double() - length * step).to(old[name].dtype)
            first[name], second[name] = m.to(before.dtype), v.to(before.dtype)
        return {self.shared: mean | moved, FIRST: first, SECOND: second}

    def _moments(self, m: torch.Tensor, v: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b1, b2 = self.knobs.beta1, self.knobs.beta2
        if self.knobs.optimizer == "momentum":
            return b1 * m + g, v
        square = g.square()
        towards = square * (v - square).sign() if self.knobs.optimizer == "yogi" else v - square
        return b1 * m + (1 - b1) * g, v - (1 - b2) * towards
