"""FedAvg with one model per site on top that never leaves its site during training."""

from __future__ import annotations

from fedsuper.core.mode import OWN
from fedsuper.methods.fedavg import FedAvg
from fedsuper.methods.protocol.method import K
from fedsuper.methods.protocol.role import PERSONAL, Role


class Personalized(FedAvg[K]):
    """A shared model, averaged by the server, and a personalized one, made by each site from it.

    Attendance: an absent site keeps its personalized model as it was. The model travels once, at the end.
    """

    keeps = "its personalized model, optimizer state"
    mode = OWN

    def roles(self) -> list[Role]:
        return [Role(self.shared), Role(PERSONAL, holder="site", per_site=True)]
