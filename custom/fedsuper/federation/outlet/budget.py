"""A site's privacy budget: what it has released so far, in a file of its own, and where it stops.

The file is written before the answer leaves, and is never reset: rounds that are run again, and runs that are started
again on the same state, are further releases of the same data.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedsuper.core.privacy.accountant import Releases, spent
from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write_json, read_json

SPENT_FILE = "privacy-spent.json"


@dataclass(frozen=True)
class Budget:
    """`limit` is the largest epsilon that the site gives, None for any."""

    site: str
    path: Path
    limit: float | None
    delta: float

    def releases(self) -> dict[float, int]:
        """Noise in units of the sensitivity, and how often something left with it."""
        if not self.path.exists():
            return {}
        told = read_json(self.path, "restore the file: without it nobody knows what this site has released")
        return {float(noise): int(count) for noise, count in told["releases"].items()}

    def spend(self, more: Releases) -> None:
        """Write further releases down; refuse them where they exceed the budget."""
        total = self.releases()
        for noise, count in more.items():
            total[noise] = total.get(noise, 0) + count
        if self.limit is not None and (cost := spent(total, self.delta)) > self.limit:
            raise FedSuperError(f"{self.site}: its privacy budget is spent: this answer would bring epsilon to "
                                f"{cost:.3g}, its site file allows {self.limit:g}; use more noise or fewer rounds")
        atomic_write_json(self.path, {"releases": {repr(noise): count for noise, count in total.items()}})
