"""Gates: from what a layer sees to the coefficients with which the experts' weights are mixed (IOP-FL, Eq. 6)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

HIDDEN = 16


class Gate(nn.Module):
    """r = sigmoid(theta(GAP(h))) in R^E, a row per image; divided by its sum where `normalise` is set.

    theta is linear, ReLU, linear (`input`) or a vector that ignores the input (`static`). Its last layer starts at
    zero with bias logit(1/E), so every coefficient starts at 1/E whatever the image. r is computed as
    sigmoid(theta) / sigmoid(logit(1/E)) / E: the same number, but exact at the start.
    """

    def __init__(
        self, inputs: int, experts: int, kind: Literal["input", "static"], normalise: bool, random: torch.Generator
    ) -> None:
        super().__init__()
        self.normalise = normalise
        self.start = -math.log(experts - 1)  # logit(1/E)
        self.reads_input = kind == "input"
        if self.reads_input:
            spread = 1 / math.sqrt(inputs)
            self.inner_weight = nn.Parameter((2 * torch.rand(HIDDEN, inputs, generator=random) - 1) * spread)
            self.inner_bias = nn.Parameter((2 * torch.rand(HIDDEN, generator=random) - 1) * spread)
            self.weight = nn.Parameter(torch.zeros(experts, HIDDEN))
        self.bias = nn.Parameter(torch.full((experts,), self.start))

    def forward(self, hidden: Tensor) -> Tensor:
        """Coefficients `[B, E]` for features `[B, C, ...]`; `[1, E]` where they do not depend on the image."""
        score = self.bias[None]
        if self.reads_input:
            pooled = hidden.float().flatten(2).mean(2)
            score = score + torch.relu(pooled @ self.inner_weight.T + self.inner_bias) @ self.weight.T
        ratio = torch.sigmoid(score) / torch.sigmoid(torch.full_like(score, self.start))
        return ratio / (ratio.sum(1, keepdim=True) if self.normalise else ratio.shape[1])
