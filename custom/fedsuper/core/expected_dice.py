"""The gate that counts the cost: choose the expert whose Dice is expected to be best, not the likeliest site.

    choose argmax_k sum_j q_j U[j, k]      U[j, k] = mean validation Dice at site j of expert k, the global model first

Naming a site wrongly costs nothing where its experts agree and much where they do not; U says which. A site's row is
known as well as it has images. With n_j of them its advantages over the global model, A[j, k] = U[j, k] - U[j, 0], are
shrunk towards what the other sites saw, where a site's own expert is another thing than a stranger's:

    A[j, k] <- (n_j A[j, k] + n_0 P[j, k]) / (n_j + n_0),   P[j, j] = mean_i A[i, i],   P[j, k] = mean_{i != k} A[i, k]

(Shrunk towards one mean row for all sites, a small site's own expert would be taken for a stranger's, which is what it
is to all the others, and the global model would win there whatever the expert is worth.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import torch
from pydantic import Field, ValidationInfo, model_validator

from fedsuper.core.calibration import TEMPERATURES
from fedsuper.core.validated.gamma_choice import check_images
from fedsuper.errors import FedSuperError
from fedsuper.schema import Strict

# A row counts half of its own and half of what the others saw at this many validation images; between 2 and 16 it made
# no difference on development federations.
HALF_TRUST = 8.0
# Nats of cross-entropy that make no difference: of such temperatures the highest, which claims least. A tenth was
# better than a thousandth on development federations, inside and outside (docs/results/selection.md): the sites' own
# images cannot show how wrong a selector is about a stranger's.
TIE = 0.1
CERTAIN = 1e-12  # probabilities below this are taken for it: log 0 has no temperature


def shrink_rows(
    utility: torch.Tensor, images: Sequence[float], own: Sequence[int | None], half: float = HALF_TRUST
) -> torch.Tensor:
    """U `[J, K]`, the global model's column first, with each row's advantages moved towards the other sites'.

    `own` names the column of each row's own expert, None where it has none. A row without images (a site that did not
    answer) has what the others saw. An entry that nobody measured (NaN: a newcomer's model at the other sites) counts
    as the least of its row and enters no mean.
    """
    if utility.dim() != 2 or not len(images) == len(own) == len(utility):
        raise FedSuperError(f"expected-Dice gate: U is {tuple(utility.shape)} for {len(images)} sites")
    table, count = utility.to(torch.float64), torch.tensor(images, dtype=torch.float64)[:, None]
    heard = (count > 0) & ~table[:, :1].isnan()
    if not bool(heard.any()):
        heard = torch.ones_like(heard)
    home = torch.zeros_like(table, dtype=torch.bool)
    for row, column in enumerate(own):
        if column is not None:
            home[row, column] = True
    base = torch.where(heard, table[:, :1], table[heard[:, 0], :1].mean())
    seen = torch.where(heard, table - base, torch.nan)
    strangers = seen.where(~home, torch.nan).nanmean(dim=0)
    prior = torch.where(home, seen.where(home, torch.nan).nanmean(), strangers)
    shrunk = base + torch.where(heard, (count * seen + half * prior) / (count + half), prior)
    least = shrunk.nan_to_num(nan=torch.inf).amin(dim=1, keepdim=True)
    return torch.where(shrunk.isnan(), least, shrunk)


def expected_dice_gate(q: torch.Tensor, utility: torch.Tensor) -> torch.Tensor:
    """The chosen expert (column of U) of every row of q `[N, J]`; of equals the first, which is the global model."""
    return (q.to(torch.float64) @ utility.to(torch.float64)).argmax(dim=1)


def tempered(q: torch.Tensor, temperature: float) -> torch.Tensor:
    """softmax(log q / T): q itself at T = 1, softer above. A trained selector is surer than it should be."""
    return (q.clamp(min=CERTAIN).log() / temperature).softmax(dim=1)


class UtilityRow(Strict):
    """A site's row of U: Dice of every expert and the selector's cross-entropy, summed over its images."""

    dice_sum: dict[str, Annotated[float, Field(strict=True, ge=0)]]
    cross_entropy: list[Annotated[float, Field(strict=True, ge=0)]] = Field(
        min_length=len(TEMPERATURES), max_length=len(TEMPERATURES)
    )
    images: int = Field(strict=True, ge=1)

    @model_validator(mode="after")
    def _within_its_images(self, info: ValidationInfo) -> UtilityRow:
        check_images(self.images, self.dice_sum.values(), info)
        experts = (info.context or {}).get("experts")
        if experts is not None and set(self.dice_sum) != set(experts):
            raise ValueError("its row is not over the super model's experts")
        return self


def choose_utility(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What the manifest keeps of the sites' rows of U, and the temperature of least cross-entropy.

    A row is a site's answer: `dice_sum` by expert, `cross_entropy` of the selector at every temperature, `images`.
    Of an expert that was not handed over to a site nothing is known there: its entry is None.
    """
    experts = list(dict.fromkeys(name for row in rows.values() for name in row["dice_sum"]))
    for site, row in rows.items():
        if len(row["cross_entropy"]) != len(TEMPERATURES) or row["images"] < 1:
            raise FedSuperError(f"{site}: its row of expected Dice is not over this version's temperatures; "
                                "install the same FedSuper everywhere")
    means = [[entropy / row["images"] for entropy in row["cross_entropy"]] for row in rows.values()]
    costs = [math.fsum(column) / len(rows) for column in zip(*means, strict=True)]
    return {
        "experts": experts,
        "dice": {site: [row["dice_sum"][name] / row["images"] if name in row["dice_sum"] else None for name in experts]
                 for site, row in rows.items()},
        "images": {site: row["images"] for site, row in rows.items()},
        "temperature": max(t for t, cost in zip(TEMPERATURES, costs, strict=True) if cost <= min(costs) + TIE),
    }
