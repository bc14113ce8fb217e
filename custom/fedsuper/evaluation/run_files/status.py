"""`fedsuper status`: how far runs are, who took part, what travelled; and one line that a monitor can read.

On one machine everything is in the run's folder: `study.yaml`, `rounds.csv`, the lock that dies with its process, and
in the end the super model. What runs on a provisioned server is asked of it (`engines.flare.launch.jobs`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedsuper.errors import FedSuperError
from fedsuper.evaluation.run_files.names import ROUNDS, STUDY, SUPER_MODEL
from fedsuper.evaluation.run_files.records import read_study_file
from fedsuper.evaluation.run_files.tables import read_rounds
from fedsuper.files import is_owned
from fedsuper.inference.supermodel_manifest import MANIFEST

RUNNING, DONE, STOPPED = "running", "done", "stopped"
STALE = 3600.0  # seconds without a round after which a running study is worth a look


@dataclass(frozen=True)
class SiteStatus:
    """One site of a run: the last round in which it answered, and its bytes so far."""

    last_round: int
    bytes_down: int
    bytes_up: int


@dataclass(frozen=True)
class RunStatus:
    """One run; `age` is the number of seconds since its last round ended, None before the first."""

    run: str
    method: str
    state: str
    round: int
    rounds: str
    age: float | None
    sites: dict[str, SiteStatus] = field(default_factory=dict)

    @property
    def healthy(self) -> bool:
        """Done, or at work and not for too long without a round."""
        return self.state == DONE or (self.state == RUNNING and (self.age or 0.0) < STALE)

    def line(self) -> str:
        """For monitoring: one line of `key=value` after the verdict."""
        present = sum(site.last_round == self.round for site in self.sites.values())
        moved = [sum(getattr(site, way) for site in self.sites.values()) for way in ("bytes_down", "bytes_up")]
        age = "-" if self.age is None else f"{self.age:.0f}"
        return (f"{'ok' if self.healthy else 'look'} run={self.run} method={self.method} state={self.state} "
                f"round={self.round}/{self.rounds} sites={present}/{len(self.sites)} age={age} "
                f"bytes_down={moved[0]} bytes_up={moved[1]}")

    def text(self) -> str:
        """For a reader: a line for the run and one for each site."""
        age = "no round yet" if self.age is None else f"last round {self.age:.0f} s ago"
        lines = [f"{self.run}: {self.method}, {self.state}, round {self.round} of {self.rounds}, {age}"]
        width = max((len(name) for name in self.sites), default=0)
        for name, site in self.sites.items():
            moved = f"{site.bytes_down / 1e6:.1f} MB down, {site.bytes_up / 1e6:.1f} MB up"
            lines.append(f"  {name:<{width}}  last seen in round {site.last_round}, {moved}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON."""
        return {**asdict(self), "healthy": self.healthy}


def status_of(run: Path) -> RunStatus:
    """How far a run is."""
    run = Path(run)
    study = read_study_file(run)
    if not study:
        raise FedSuperError(f"{run}: holds no run (no {STUDY}); give the --out of `fedsuper run`, or a folder of runs")
    rounds = read_rounds(run)
    last = max(rounds, default=0)
    sites: dict[str, SiteStatus] = {}
    for number, costs in rounds.items():
        for name, cost in costs.items():
            before = sites.get(name, SiteStatus(0, 0, 0))
            seen = number if cost.bytes_up else before.last_round
            sites[name] = SiteStatus(seen, before.bytes_down + cost.bytes_down, before.bytes_up + cost.bytes_up)
    running = is_owned(run)
    state = RUNNING if running else DONE if (run / SUPER_MODEL / MANIFEST).exists() else STOPPED
    age = time.time() - (run / ROUNDS).stat().st_mtime if rounds else None
    return RunStatus(str(run), str(study.get("method", "?")), state, last, str(study.get("rounds", "?")), age,
                     dict(sorted(sites.items())))


def runs_in(folders: Iterable[Path]) -> list[Path]:
    """The runs that are given, and those directly or as a comparison's cells below a folder that is none."""
    found: list[Path] = []
    for folder in map(Path, folders):
        below = sorted(path.parent for path in (*folder.glob(f"*/{STUDY}"), *folder.glob(f"runs/*/seed-*/{STUDY}")))
        found += [folder] if (folder / STUDY).exists() or not below else below
    return found
