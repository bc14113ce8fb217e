"""What an attacker learns, with and without privacy: the tables of docs/results/privacy.md.

    python -m fedsuper.studies.privacy.measure --out runs/privacy
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from fedsuper.data.synthetic.retina import write_retina
from fedsuper.files import atomic_write_text
from fedsuper.studies.privacy import guessing, inversion

SITES, IMAGES, SIZE = 2, 96, 48


def membership_table(out: Path, seeds: Sequence[int]) -> str:
    """Means over `seeds`; every seed is another federation."""
    lines = ["| noise | advantage of the attacker (AUC) | test Dice | epsilon (delta 1e-5) |", "|---|---|---|---|"]
    for way in guessing.WAYS:
        found = []
        for seed in seeds:
            root = out / f"hospitals-{seed}"
            if not root.exists():
                write_retina(root, sites=SITES, images=IMAGES, size=SIZE, seed=seed)
            found.append(guessing.guess(root, out / f"{way}-{seed}".replace(" ", "-").replace(",", ""), way, seed))
        cost = found[0].epsilon
        told = "none" if cost is None else f"{cost:.3g}"
        advantage, dice = fmean(one.advantage for one in found), fmean(one.dice for one in found)
        lines.append(f"| {way} | {advantage:.3f} | {dice:.3f} | {told} |")
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def inversion_table(out: Path, seed: int) -> str:
    """Likeness of what the server sees to the image."""
    lines = ["| what is sent | likeness | epsilon of this one release |", "|---|---|---|"]
    for one in inversion.run(out, seed):
        lines.append(f"| {one.way} | {one.likeness:.2f} | {'none' if one.epsilon is None else f'{one.epsilon:.3g}'} |")
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write OUT/privacy.md and OUT/inversion.png."""
    parser = argparse.ArgumentParser(description="membership inference and gradient inversion, with and without noise")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", default="0,1,2", help="comma-separated; the membership table shows their mean")
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    tables = [membership_table(options.out, seeds), inversion_table(options.out / "inversion", seeds[0])]
    atomic_write_text(options.out / "privacy.md", "\n".join(tables))


if __name__ == "__main__":
    main()
