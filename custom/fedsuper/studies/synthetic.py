"""Judge the synthetic hospitals by facts: learning curves beside real ones, and what a net learns (`make synthetic`).

A learning curve is the Dice after 4, 8, 16, ... images of one site. The second fact is the Dice on real images of a net
that saw synthetic ones only. Real images are not part of the project: without `--real-*` only synthetic rows are made.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.data.prepared.samples import Samples
from fedsuper.data.synthetic import prostate_sites, retina_sites
from fedsuper.data.synthetic.eye.eye_sites import eye_hospital
from fedsuper.data.synthetic.pelvis.pelvis_sites import pelvis_hospital
from fedsuper.data.synthetic.prostate import DATASET, write_site
from fedsuper.data.synthetic.retina import render
from fedsuper.data.synthetic.shift import DIFFICULTIES
from fedsuper.errors import exit_code
from fedsuper.files import atomic_write_json, atomic_write_text
from fedsuper.studies.facts.disc_crops import write_crops
from fedsuper.studies.facts.learning_curve import COUNTS, Curve, fit, learning_curve, mean_dice, mean_mask_dice
from fedsuper.studies.facts.real_beside_synthetic import write_side_by_side
from fedsuper.studies.facts.root_samples import few_slices, pooled

PIXELS, SITES, SLICES = 64, 6, 4
LEARNED_SITE = 5  # the largest site, the sixth
TASKS = ("retina", "prostate")
HELD = {"retina": 17, "prostate": 120}  # images scored along a curve: 64 of the 81 real photographs are left to learn
STUDY: dict[str, Any] = {
    "method": "local",
    "rounds": 1,
    "image_size": PIXELS,
    "optimizer": {"lr": 0.004},
    "model": {"channels": [8, 16, 32, 64]},
}


@dataclass(frozen=True)
class Request:
    """What to measure, and how long."""

    out: Path
    real: dict[str, Path]
    seed: int = 0
    steps: int = 400
    draws: int = 3
    images: int = 240  # photographs, or slices, of all six sites that the net for real images sees
    tasks: tuple[str, ...] = TASKS

    def study(self, **changes: Any) -> Study:
        """The small net every point is trained with."""
        return parse_study({**STUDY, **changes}).with_seed(self.seed)


def measure(what: Request, task: str) -> dict[str, Any]:
    """Curves of real, realistic and easy images, and Dice on real images after training on synthetic ones."""
    real = _real(what.real[task], task) if task in what.real else None
    curves: dict[str, Curve] = {}
    if real is not None:
        curves["real images"] = _curve(what, task, real)
    transfer: dict[str, float] = {}
    for difficulty in DIFFICULTIES:
        wanted = max(COUNTS) * (1 if task == "retina" else SLICES) + HELD[task]  # as many patients as real images
        one_site = _samples(what, task, difficulty, [LEARNED_SITE], wanted)
        curves[f"synthetic, {difficulty}"] = _curve(what, task, one_site)
        if real is None:
            continue
        seen = _samples(what, task, difficulty, range(SITES), what.images)
        if difficulty == DIFFICULTIES[0]:
            write_side_by_side(what.out / f"{task}.jpg", real, seen)
        for augment in ("light", "strong"):
            study = what.study(augment=augment)
            net = fit(seen, study, 2 * what.steps)
            transfer[f"{difficulty}, {augment}"] = mean_dice(net, real, study)
        transfer[f"{difficulty}, mean mask"] = mean_mask_dice(seen, real)
    return {
        "curves": {name: {"counts": curve.counts, "draws": curve.draws} for name, curve in curves.items()},
        "means": {name: dict(zip(curve.counts, curve.means, strict=True)) for name, curve in curves.items()},
        "on_real_images": transfer,
    }


def _curve(what: Request, task: str, samples: Samples) -> Curve:
    return learning_curve(samples, what.study(), what.steps, HELD[task], what.draws)


def _real(root: Path, task: str) -> Samples:
    samples = pooled(root, PIXELS)
    return samples if task == "retina" else few_slices(samples, SLICES)


def _samples(what: Request, task: str, difficulty: str, sites: Sequence[int], images: int) -> Samples:
    """Synthetic samples cut and chosen as the real ones are; what was written before is written anew."""
    root = what.out / "data" / f"{task}-{difficulty}-{len(sites)}"
    if root.exists():
        shutil.rmtree(root)
    each = -(-images // len(sites))
    if task == "retina":
        for site in sites:
            one = retina_sites.hospital(site) if difficulty == "easy" else eye_hospital(site)
            write_crops(root, f"site-{site + 1}", render(one, [what.seed, site], each, 160), what.seed + site)
        return pooled(root, PIXELS)
    for site in sites:
        man = prostate_sites.hospital(site) if difficulty == "easy" else pelvis_hospital(site)
        volumes = write_site(root / f"site-{site + 1}", man, [what.seed, site], -(-each // SLICES), 96)
        deque(volumes, maxlen=0)
    atomic_write_json(root / "dataset.json", DATASET)
    return few_slices(pooled(root, PIXELS), SLICES)


def tables(result: dict[str, Any]) -> str:
    """The numbers as Markdown."""
    lines = []
    for task, found in result["tasks"].items():
        lines += [f"## {task}", "", f"| images of one site | {' | '.join(map(str, COUNTS))} |"]
        lines.append("|---|" + "---:|" * len(COUNTS))
        for name, means in found["means"].items():
            cells = [f"{means[count]:.3f}" if count in means else "" for count in COUNTS]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        if found["on_real_images"]:
            lines += ["", "| trained on synthetic images only | Dice on all real images |", "|---|---:|"]
            lines += [f"| {name} | {value:.3f} |" for name, value in found["on_real_images"].items()]
        lines.append("")
    return "\n".join(lines)


def run_synthetic(what: Request) -> str:
    """Measure both tasks; writes `synthetic.json`, `synthetic.md` and the pictures into `out`."""
    what.out.mkdir(parents=True, exist_ok=True)
    settings = {"study": STUDY, "seed": what.seed, "steps": what.steps, "draws": what.draws, "images": what.images}
    result = {**settings, "tasks": {task: measure(what, task) for task in what.tasks}}
    atomic_write_json(what.out / "synthetic.json", result)
    atomic_write_text(what.out / "synthetic.md", tables(result))
    return tables(result)


def main(arguments: list[str] | None = None) -> int:
    """`python -m fedsuper.studies.synthetic --out DIR [--real-retina ROOT] [--real-prostate ROOT]`."""
    parser = argparse.ArgumentParser(prog="fedsuper.studies.synthetic", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/synthetic"))
    for task in TASKS:
        parser.add_argument(f"--real-{task}", type=Path, metavar="ROOT", help=f"a data root of real {task} images")
    for name, default in (("seed", 0), ("steps", 400), ("draws", 3), ("images", 240)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--task", choices=TASKS, help="only this one (default: both)")
    options = parser.parse_args(arguments)
    tasks = (options.task,) if options.task else TASKS
    real = {task: root for task in TASKS if (root := getattr(options, f"real_{task}")) is not None}
    how = options.seed, options.steps, options.draws, options.images
    return exit_code(lambda: run_synthetic(Request(options.out, real, *how, tasks)))


if __name__ == "__main__":
    sys.exit(main())
