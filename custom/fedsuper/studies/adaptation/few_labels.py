"""What a few labels are worth at a hospital outside, beside every way to do without: `python -m ...few_labels`.

Two outside hospitals (near one site, unlike all) of the demonstration's federation, FedSM trained once a seed; every
row is scored on the images that nobody labeled. Finished trainings are kept, so a broken run goes on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsuper.config.reading import read_study
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.outside import OutsideRow, score_outside, summarize_outside
from fedsuper.evaluation.run_files.names import SUPER_MODEL
from fedsuper.files import atomic_write_json, atomic_write_text
from fedsuper.inference.artifact import load_super_model
from fedsuper.studies.adaptation.label_counts import COUNTS, on_the_rest, score_from_scratch, score_with_labels
from fedsuper.studies.demo import IMAGES, PIXELS, STUDY
from fedsuper.studies.run import run_study

KINDS = ("near", "unlike")
MODES = ("global", "ensemble", "agree", "mix", "select", "route", "oracle")
OWN = f"{max(COUNTS)} labels"
SITE = "outside"


def main(arguments: list[str] | None = None) -> int:
    """Synthesize, train, adapt, score; the table goes to `OUT/adaptation.md`."""
    parser = argparse.ArgumentParser(prog="fedsuper.studies.adaptation.few_labels", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/adaptation"))
    parser.add_argument("--seeds", default="0,1,2")
    options = parser.parse_args(arguments)
    try:
        found = few_labels(options.out, [int(seed) for seed in options.seeds.split(",")])
    except (FedSuperError, ValueError) as problem:
        print(f"fedsuper: {problem}", file=sys.stderr)
        return 2
    text = "\n".join(few_labels_markdown(kind, found[kind]) for kind in found)
    atomic_write_text(options.out / "adaptation.md", text)
    print(text)
    return 0


def few_labels(out: Path, seeds: Sequence[int]) -> dict[str, dict[str, Any]]:
    """By kind of hospital the summary of all seeds (`all`) and of each, gains against five labels."""
    rows: dict[str, dict[int, list[OutsideRow]]] = {kind: {} for kind in KINDS}
    for seed in seeds:
        folder = out / f"seed-{seed}"
        roots = {kind: _data(folder / kind, kind, seed) for kind in KINDS}
        super_model = _trained(folder, seed)
        for kind, root in roots.items():
            rows[kind][seed] = _scored(super_model, root, seed)
            print(f"seed {seed}, {kind}: scored", file=sys.stderr)
    found = {
        kind: {"all": summarize_outside(by_seed, OWN)}
        | {str(seed): summarize_outside({seed: each}, OWN) for seed, each in by_seed.items()}
        for kind, by_seed in rows.items()
    }
    atomic_write_json(out / "adaptation.json", {"seeds": list(seeds), "hospitals": found})
    return found


def few_labels_markdown(kind: str, found: Mapping[str, Any]) -> str:
    """The table of one hospital: a line a row, a column a seed, and what five labels are worth beside it."""
    seeds = [name for name in found if name != "all"]
    lines = [[f"`{kind}`", *(f"seed {seed}" for seed in seeds), "mean", f"{OWN}, less this"]]
    lines.append(["---", *["---:"] * (len(lines[0]) - 1)])
    for mode, entry in found["all"].items():
        gain = entry.get("gain")
        less = "" if gain is None else _span(-gain["mean"], [-gain["ci95"][1], -gain["ci95"][0]], "+.3f")
        values = [_span(one["mean"], one["ci95"], ".3f") for one in (*(found[s][mode] for s in seeds), entry)]
        lines.append([mode, *values, less])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def _span(mean: float, ends: Sequence[float], form: str) -> str:
    return f"{mean:{form}} ({ends[0]:{form}} to {ends[1]:{form}})"


def _data(root: Path, kind: str, seed: int) -> Path:
    """The outside hospital's root; both kinds stand beside the same federation."""
    outside = root.with_name(f"{root.name}-outside")
    if not (root / "dataset.json").exists():
        write_retina(root, images=IMAGES, size=PIXELS, seed=seed, outside=kind)
    return outside


def _trained(folder: Path, seed: int) -> SuperModel:
    run = folder / "run"
    if not (run / SUPER_MODEL / "supermodel.json").exists():
        run_study(read_study(STUDY).with_seed(seed), folder / KINDS[0], run, "local")
    return load_super_model(run / SUPER_MODEL)


def _scored(super_model: SuperModel, root: Path, seed: int) -> list[OutsideRow]:
    *free, oracle = score_outside(super_model, root, SITE, MODES)
    rows = [*free, *score_with_labels(super_model, root, SITE, seed=seed),
            score_from_scratch(super_model, root, SITE, seed=seed), oracle]
    return on_the_rest(rows, root, SITE)


if __name__ == "__main__":
    sys.exit(main())
