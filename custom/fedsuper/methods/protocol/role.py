"""The names of a method's models, and who holds each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PERSONAL = "personal"
SELECTOR = "selector"


@dataclass(frozen=True)
class Role:
    """A named model: who holds it between rounds, whether there is one per site, and what it is."""

    name: str
    holder: Literal["server", "site"] = "server"
    per_site: bool = False
    kind: Literal["segmentation", "selector"] = "segmentation"

    def key(self, site: str) -> str:
        """Its name in the server's store."""
        return f"{self.name}/{site}" if self.per_site else self.name
