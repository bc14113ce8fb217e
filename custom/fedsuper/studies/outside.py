"""The outside experiment: a hospital that never trained, every mode, several seeds (`make outside`).

Per seed: a synthetic federation of six hospitals and a seventh outside it; on the six, a super model with IOP-FL's
personalized models and FedSM's selector, and a model with a rotation head (TTT); then all modes on all images of the
seventh. For the first seed also routing with one setting changed, a super model with SoftPull's personalized models,
the figures and the curve. Nets have BatchNorm, because Tent and the image-statistics baseline have nothing to do with
MONAI's default norm.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedsuper.config import Study
from fedsuper.config.reading import change_method, parse_study
from fedsuper.core.supermodel import GLOBAL, SuperModel
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.errors import exit_code
from fedsuper.evaluation.exhibits.routing_trace import trace_routing
from fedsuper.evaluation.outside import (
    BASELINE,
    OutsideRow,
    outside_markdown,
    outside_modes,
    score_outside,
    summarize_outside,
)
from fedsuper.evaluation.run_files.names import OUTSIDE, SUPER_MODEL, cell
from fedsuper.files import atomic_write_bytes, atomic_write_json, atomic_write_text
from fedsuper.inference.artifact import load_super_model
from fedsuper.inference.modes import ORACLE
from fedsuper.inference.overrides import with_routing
from fedsuper.report.figures.routing import routing_heat_map, time_curve
from fedsuper.report.figures.style import to_png
from fedsuper.studies.cells.cell import Cell
from fedsuper.train.device import Compute

SITE, ROUTE = "outside", "route"
IMAGES, SIZE = 200, 48
STUDY: dict[str, Any] = {
    "method": "fedsm",
    "rounds": 16,
    "image_size": SIZE,
    "batch_size": 4,
    "loss": "dice-bce",
    "optimizer": {"lr": 0.004},
    "model": {"channels": [8, 16, 32, 64], "residual_units": 0, "norm": "batch"},
    "routing": {"radius": 2},  # the paper's 10 pixels of 384
    "fedsm": {"personal": "iop-fl"},
}
UNTUNED = "untuned (even mixture)"
SOFTPULL_MODES = [GLOBAL, BASELINE, "ensemble", ROUTE, ORACLE]
TITLES = {
    "modes": "Every mode, IOP-FL's personalized models",
    "statistics": "Every model with each image's own norm statistics",
    "variants": "Routing with one setting changed, first seed",
    "softpull": "SoftPull's personalized models, first seed",
}
# One change each from the default: the paper's Table III and Fig. 8, and the choices the paper leaves open.
VARIANTS: dict[str, dict[str, Any]] = {
    UNTUNED: {"epochs": 0},
    "level: global": {"level": "global"},
    "gate: static": {"gate": "static"},
    "normalize: false": {"normalize": False},
    "reset: false": {"reset": False},
    "norm_statistics: running": {"norm_statistics": "running"},
    "consistency: false": {"consistency": False},
    "shape: false": {"shape": False},
    "entropy: false": {"entropy": False},
    "preset: paper": {"preset": "paper"},
    "preset: as-released": {"preset": "as-released"},
    "start: selector": {"start": "selector"},
    "guard: false": {"guard": False},
    "lr: 0.01": {"lr": 0.01},
}


def run_outside(out: Path, seeds: Sequence[int], settings: Mapping[str, Any] = STUDY, images: int = IMAGES) -> str:
    """Train, score, write `outside.json`, `outside.md` and the figures into `out`; returns the tables.

    What is already trained is used again; with the same arguments the numbers are the same.
    """
    out = Path(out)
    modes: dict[int, list[OutsideRow]] = {}
    statistics: dict[int, list[OutsideRow]] = {}
    variants: dict[int, list[OutsideRow]] = {}
    softpull: dict[int, list[OutsideRow]] = {}
    for seed in seeds:
        study = parse_study(dict(settings)).with_seed(seed)
        root = _data(out / "data" / f"seed-{seed}", images, study.image_size, seed)
        outside, compute = root.with_name(root.name + "-outside"), Compute.from_config(study.compute)
        main = _train(study, root, cell(out, "fedsm-iop-fl", seed))
        rotation = _train(change_method(study, "ttt"), root, cell(out, "ttt", seed))
        modes[seed] = score_modes(main, rotation, outside, compute)
        route = [row for row in modes[seed] if row.mode == ROUTE]
        statistics[seed] = [*score_statistics(main, outside, compute), *route]
        if seed == seeds[0]:
            variants[seed] = route + score_variants(main, outside, compute, VARIANTS)
            other = parse_study({**settings, "fedsm": {"personal": "softpull"}}).with_seed(seed)
            pulled = _train(other, root, cell(out, "fedsm-softpull", seed))
            softpull[seed] = score_outside(pulled, outside, SITE, SOFTPULL_MODES, compute)
            softpull[seed] += score_variants(pulled, outside, compute, {UNTUNED: VARIANTS[UNTUNED]})
            _figures(out, main, outside, compute, modes[seed])
        print(outside_markdown(summarize_outside({seed: modes[seed]})), file=sys.stderr)
    tables = {
        "modes": summarize_outside(modes),
        "statistics": summarize_outside(statistics, GLOBAL),
        "variants": summarize_outside(variants, UNTUNED),
        "softpull": summarize_outside(softpull),
    }
    return _write(out, seeds, settings, images, tables)


def score_modes(main: SuperModel, rotation: SuperModel, root: Path, compute: Compute) -> list[OutsideRow]:
    """Every mode of the main super model; `ttt` and what it starts from come from the model that has the head."""
    rows = {row.mode: row for row in score_outside(main, root, SITE, outside_modes(main), compute)}
    before, rows["ttt"] = score_outside(rotation, root, SITE, [GLOBAL, "ttt"], compute)
    return [*rows.values(), replace(before, mode="ttt, before test time")]


def score_statistics(main: SuperModel, root: Path, compute: Compute) -> list[OutsideRow]:
    """Each single model with the image's own norm statistics, and the best of them by label: routing's true ceiling."""
    rows = []
    for name, state in main.experts().items():
        (row,) = score_outside(replace(main, global_model=state), root, SITE, [BASELINE], compute)
        rows.append(replace(row, mode=name, images=[replace(image, chosen=name) for image in row.images]))
    by_image = zip(*(row.images for row in rows), strict=True)
    best = [max(images, key=lambda image: image.mean) for images in by_image]
    seconds = sum(row.seconds_per_image for row in rows)
    return [*rows, OutsideRow(ORACLE, best, seconds)]


def score_variants(
    main: SuperModel, root: Path, compute: Compute, variants: Mapping[str, Mapping[str, Any]]
) -> list[OutsideRow]:
    """Routing with one setting changed at a time."""
    rows = []
    for name, changes in variants.items():
        (row,) = score_outside(with_routing(main, **changes), root, SITE, [ROUTE], compute)
        rows.append(replace(row, mode=name))
    return rows


def _data(root: Path, images: int, size: int, seed: int) -> Path:
    if not root.exists():
        write_retina(root, images=images, size=size, seed=seed, outside=True)
    return root


def _train(study: Study, root: Path, folder: Path) -> SuperModel:
    Cell(study.method, study.seed, study, root, folder).train()
    return load_super_model(folder / SUPER_MODEL)


def _figures(out: Path, main: SuperModel, root: Path, compute: Compute, rows: Sequence[OutsideRow]) -> None:
    trace = trace_routing(main, root, SITE, compute)
    means = {row.mode: sum(image.mean for image in row.images) / len(row.images) for row in rows if row.images}
    atomic_write_json(out / "routing-trace.json", trace.to_json())
    references = {name: means[name] for name in (GLOBAL, BASELINE)}
    atomic_write_bytes(out / "routing-matrix.png", to_png(routing_heat_map(trace.coefficients, trace.experts)))
    atomic_write_bytes(out / "routing-time.png", to_png(time_curve(trace.to_json()["points"], references)))


def _write(
    out: Path, seeds: Sequence[int], settings: Mapping[str, Any], images: int, summaries: Mapping[str, Any]
) -> str:
    result = {"seeds": list(seeds), "study": dict(settings), "images": images, **summaries}
    atomic_write_json(out / OUTSIDE, result)
    text = "\n".join(f"## {TITLES[name]}\n\n{outside_markdown(summary)}" for name, summary in summaries.items())
    atomic_write_text(out / "outside.md", text)
    return text


def main() -> int:
    """`python -m fedsuper.studies.outside --out DIR [--seeds 0,1,2]`."""
    parser = argparse.ArgumentParser(prog="fedsuper.studies.outside", description="every mode on a hospital outside")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", default="0,1,2")
    options = parser.parse_args()
    return exit_code(lambda: run_outside(options.out, [int(seed) for seed in options.seeds.split(",")]))


if __name__ == "__main__":
    sys.exit(main())
