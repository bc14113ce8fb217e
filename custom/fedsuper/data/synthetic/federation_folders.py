"""Writing a synthetic federation: data roots with a folder per site, each root whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuper.data.draft_folder import draft_beside
from fedsuper.data.synthetic.shift import DIFFICULTIES, PARTS
from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write_json

SMALLEST_SIZE = 32
OUTSIDE_KEY = 1_000_000  # of the hospital nobody trains on: far from every site's own number


@dataclass(frozen=True)
class SitePlan:
    """A site to write: `write` fills its folder and yields, now and then, how many cases it has added."""

    name: str
    cases: int
    write: Callable[[Path], Iterator[int]]


def check_request(
    sites: int, size: int, seed: int, difficulty: str = "real", shift: tuple[str, ...] = PARTS
) -> None:
    """Refuse numbers no federation can be made of."""
    if sites < 1:
        raise FedSuperError(f"synth: --sites must be at least 1, got {sites}")
    if size < SMALLEST_SIZE:
        raise FedSuperError(f"synth: --size must be at least {SMALLEST_SIZE} pixels, got {size}")
    if seed < 0:
        raise FedSuperError(f"synth: --seed must not be negative, got {seed}")
    if difficulty not in DIFFICULTIES:
        raise FedSuperError(f"synth: --difficulty must be one of {', '.join(DIFFICULTIES)}, got {difficulty!r}")
    if difficulty == "easy" and set(shift) != set(PARTS):
        raise FedSuperError("synth: --shift needs --difficulty real; the easy hospitals are as they are")


def write_roots(
    roots: dict[Path, list[SitePlan]], dataset: dict[str, Any], progress: Callable[[int, int], None] | None
) -> None:
    """Write every root with its `dataset.json`; `progress` is called with cases written and cases in all."""
    for root in roots:
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise FedSuperError(f"synth: {root} exists and is not an empty folder; choose another --out or remove it")
    done, in_all = 0, sum(plan.cases for plans in roots.values() for plan in plans)
    for root, plans in roots.items():
        with draft_beside(root) as draft:
            atomic_write_json(draft / "dataset.json", dataset)
            for plan in plans:
                for added in plan.write(draft / plan.name):
                    done += added
                    if progress is not None:
                        progress(done, in_all)
            draft.replace(root)
