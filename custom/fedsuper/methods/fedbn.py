"""FedBN (Li et al. 2021): FedAvg without the norm layers; their affine weights and statistics stay at the site.

Norm layers are found by module type (MONAI's are called `adn.N`, so a search for "bn" would miss them). A net whose
norm layers have neither weights nor statistics, such as MONAI's default InstanceNorm, has nothing to keep: FedBN is
FedAvg there, and says so; use `model.norm: batch`.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from fedsuper.core.partition import norm_entries
from fedsuper.methods.parts.partly_shared import PartlyShared
from fedsuper.methods.protocol.method import NoKnobs


class FedBN(PartlyShared[NoKnobs]):
    """Each site normalizes its own way; all other weights are averaged."""

    name = "fedbn"
    paper = "Li et al. 2021; IOP-FL Table I"
    travels = "w without norm layers, down and up"
    keeps = "its norm layers, optimizer state"

    def private_entries(self, net: nn.Module) -> frozenset[str]:
        return norm_entries(net)

    def check(self, sites: Sequence[str]) -> list[str]:
        if self.private:
            return []
        return [f"fedbn: with model.norm {self.study.model.norm} this net's norm layers have nothing to keep, so FedBN "
                "equals FedAvg; use model.norm: batch"]
