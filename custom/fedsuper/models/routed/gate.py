"""Gates: from what a layer sees to the coefficients with which the experts' weights are mixed (IOP-FL, Eq. 6)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn


class Gate(nn.Module):
    """r = sigmoid(theta(GAP(h))) in R^E, a row per image; divided by its sum where `normalize` is set.

    theta is linear, ReLU, dropout, linear (`input`), `hidden` wide (0: twice its inputs), or a vector that ignores the
    input (`static`). Its last layer starts at zero with bias logit(1/E), so every coefficient starts at 1/E whatever
    the image. r is computed as sigmoid(theta) / sigmoid(logit(1/E)) / E: the same number, but exact at the start. The
    wider a gate, the farther a step of Adam, which moves every weight alike, can take it.
    """

    def __init__(
        self,
        inputs: int,
        experts: int,
        kind: Literal["input", "static"],
        normalize: bool,
        random: torch.Generator,
        hidden: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.dropping: torch.Generator | None = None  # set while the gates are tuned
        width = hidden or 2 * inputs
        self.normalize = normalize
        self.start = -math.log(experts - 1)  # logit(1/E)
        self.reads_input = kind == "input"
        if self.reads_input:
            spread = 1 / math.sqrt(inputs)
            self.inner_weight = nn.Parameter((2 * torch.rand(width, inputs, generator=random) - 1) * spread)
            self.inner_bias = nn.Parameter((2 * torch.rand(width, generator=random) - 1) * spread)
            self.weight = nn.Parameter(torch.zeros(experts, width))
        self.bias = nn.Parameter(torch.full((experts,), self.start))

    def forward(self, hidden: Tensor) -> Tensor:
        """Coefficients `[B, E]` for features `[B, C, ...]`; `[1, E]` where they do not depend on the image."""
        score = self.bias[None]
        if self.reads_input:
            pooled = hidden.float().flatten(2).mean(2)
            inner = self._dropped(torch.relu(pooled @ self.inner_weight.T + self.inner_bias))
            score = score + inner @ self.weight.T
        ratio = torch.sigmoid(score) / torch.sigmoid(torch.full_like(score, self.start))
        return ratio / (ratio.sum(1, keepdim=True) if self.normalize else ratio.shape[1])

    def begin_at(self, row: Tensor) -> None:
        """Let every coefficient start at `row` `[E]`, positive with sum 1, whatever the image."""
        with torch.no_grad():
            self.bias.copy_(torch.logit(row.to(self.bias)))

    def _dropped(self, inner: Tensor) -> Tensor:
        if self.dropping is None or self.dropout == 0:
            return inner
        kept = torch.rand(inner.shape, generator=self.dropping) >= self.dropout
        return inner * kept.to(inner) / (1 - self.dropout)
