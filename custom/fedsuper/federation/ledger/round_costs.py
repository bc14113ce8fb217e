"""`rounds.csv` in a run's folder: what every round cost every site, in bytes each way and in seconds.

    round,site,bytes_down,bytes_up,seconds
    1,site-1,180224,180310,2.41

A line a site and round, added when the round ends; a round that was run again (after a break, or undone) has its last
lines at the end of the file, and those count. What travels before the first and after the last round (description,
hand-over, calibration) is in the manifest's `traffic`, the whole run's.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from fedsuper.evaluation.run_files.names import ROUNDS
from fedsuper.federation.ledger.traffic import Traffic

COLUMNS = ("round", "site", "bytes_down", "bytes_up", "seconds")


@dataclass(frozen=True)
class RoundCost:
    """A round's traffic and how long it took, from the first message to the checkpoint."""

    traffic: Traffic
    seconds: float

    def summary(self) -> str:
        """For the round's line."""
        return f"{self.traffic.summary()}, {self.seconds:.1f} s"

    def to_json(self) -> dict[str, Any]:
        """As an event carries it."""
        return {"traffic": self.traffic.to_json(), "seconds": round(self.seconds, 3)}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> RoundCost:
        """The inverse of `to_json`."""
        return cls(Traffic.from_json(told["traffic"]), float(told["seconds"]))


def add_round(run: Path, number: int, cost: RoundCost) -> None:
    """Add a round to the run's table."""
    path = Path(run) / ROUNDS
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b", buffering=0) as file:
        whole = _whole_lines(file)
        text = io.StringIO(newline="")
        rows = [[number, site, both["down"], both["up"], f"{cost.seconds:.3f}"]
                for site, both in cost.traffic.to_json().items()]
        csv.writer(text).writerows(rows if whole else [COLUMNS, *rows])
        file.truncate(whole)
        file.write(text.getvalue().encode())


def _whole_lines(file: BinaryIO) -> int:
    """The bytes of a table up to its last whole line: a process that was killed, or a full disk, may leave half of one.
    """
    file.seek(0)
    return file.read().rfind(b"\n") + 1
