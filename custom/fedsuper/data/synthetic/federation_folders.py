"""Writing a synthetic federation: data roots with a folder per site, each root whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from fedsuper.data.draft_folder import draft_beside
from fedsuper.data.synthetic.shift import DIFFICULTIES, PARTS, Difficulty, outside_kind
from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write_json

SMALLEST_SIZE = 32
OUTSIDE_KEY = 1_000_000  # of the hospital nobody trains on: far from every site's own number


class HasShare(Protocol):
    """A hospital knows its part in the federation's cases."""

    @property
    def share(self) -> float:
        """Its weight beside the other hospitals'."""


Site = TypeVar("Site", bound=HasShare)


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


@dataclass(frozen=True)
class Cases:
    """How many cases a federation has in all, how many a site at least, and how many the hospital outside."""

    in_all: int
    at_least: int
    outside: int


@dataclass(frozen=True)
class FederationWriter(Generic[Site]):
    """What the tasks differ in: `hospital` by index, `beside` by its kind, cases for (sites, images), one site's files.

    `write_site` takes the folder, the hospital, the key of its random stream, its cases and their size in pixels.
    """

    dataset: dict[str, Any]
    size: int
    cases: Callable[[int, int | None], Cases]
    hospital: Callable[[int, Difficulty, tuple[str, ...]], Site]
    beside: Callable[[str, Difficulty], Site]
    write_site: Callable[[Path, Site, list[int], int, int], Iterator[int]]

    def write(
        self,
        out: Path,
        sites: int = 6,
        images: int | None = None,
        size: int | None = None,
        seed: int = 0,
        outside: bool | str = False,
        progress: Callable[[int, int], None] | None = None,
        difficulty: Difficulty = "real",
        shift: tuple[str, ...] = PARTS,
    ) -> None:
        """Write a data root of `sites` hospitals; the same arguments give the same bytes.

        `images` are photographs in all, or volumes a site on average. `outside` ("near" or "unlike" the others) adds
        the data root `<out>-outside` with one hospital that nobody trains on. `difficulty` "easy" draws clear borders
        that are learned from a few images, for quick tests. `shift` are the parts in which hospitals differ. `progress`
        is called with cases written and cases in all.
        """
        out = Path(out)
        pixels = self.size if size is None else size
        check_request(sites, pixels, seed, difficulty, shift)
        cases = self.cases(sites, images)
        hospitals = [self.hospital(index, difficulty, shift) for index in range(sites)]
        counts = share_out(cases.in_all, [one.share for one in hospitals], cases.at_least)
        roots = {
            out: [
                self._plan(f"site-{index + 1}", one, [seed, index], count, pixels)
                for index, (one, count) in enumerate(zip(hospitals, counts, strict=True))
            ]
        }
        if kind := outside_kind(outside):
            one = self.beside(kind, difficulty)
            plan = self._plan("outside", one, [seed, OUTSIDE_KEY], cases.outside, pixels)
            roots[out.with_name(out.name + "-outside")] = [plan]
        write_roots(roots, self.dataset, progress)

    def _plan(self, name: str, site: Site, key: list[int], count: int, size: int) -> SitePlan:
        def write(folder: Path) -> Iterator[int]:
            return self.write_site(folder, site, key, count, size)

        return SitePlan(name, count, write)


def share_out(total: int, shares: list[float], at_least: int = 12) -> list[int]:
    """Whole numbers of images in proportion to `shares` that add up to `total`, by largest remainder.

    No site gets fewer than `at_least` where the total allows, because a site must still split into train, val and test.
    """
    floor = min(at_least, total // len(shares))
    weights = np.asarray(shares, dtype=float)
    small = np.zeros(len(weights), dtype=bool)
    while True:
        rest = max(weights[~small].sum(), np.finfo(float).tiny)
        exact = np.where(small, floor, (total - floor * small.sum()) * (weights / rest))
        below = exact < floor
        if not below.any():
            break
        small |= below
    counts = np.floor(exact).astype(int)
    for site in np.argsort(counts - exact, kind="stable")[: total - counts.sum()]:
        counts[site] += 1
    return [int(count) for count in counts]


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
