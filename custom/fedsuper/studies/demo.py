"""`make demo`: six synthetic hospitals train through the NVFlare simulator; a table and a report come out."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from fedsuper.config.reading import read_study
from fedsuper.core.mode import GLOBAL
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.errors import exit_code
from fedsuper.evaluation.outside import score_outside, summarize_outside
from fedsuper.evaluation.run_files.names import COMPARE, OUTSIDE, SUPER_MODEL
from fedsuper.evaluation.run_files.records import read_comparison
from fedsuper.files import atomic_write_json
from fedsuper.inference.artifact import load_super_model
from fedsuper.report.page import write_report
from fedsuper.studies.adaptation.fine_tune import USUAL_STEPS
from fedsuper.studies.adaptation.label_counts import on_the_rest, score_with_labels
from fedsuper.studies.compare import Comparison, compare_and_tell

STUDY = Path(__file__).with_name("demo.yaml")
METHODS = ["centralized", "local", "fedavg", "fedsm"]
IMAGES, PIXELS = 400, 64
NOTE = (
    "These hospitals are synthetic and calibrated to the shape of real federations (how Dice grows with images, "
    "how far hospitals' cameras and habits lie apart, and that FedAvg then falls behind): the table illustrates what "
    "those show and is no evidence for a method."
)


def main(arguments: list[str] | None = None) -> int:
    """Synthesize, train, score, report."""
    parser = argparse.ArgumentParser(prog="fedsuper.studies.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/demo"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=["sim", "local"], default="sim")
    options = parser.parse_args(arguments)
    return exit_code(lambda: demo(options.out, options.seed, options.engine))


def demo(out: Path, seed: int = 0, engine: str = "sim") -> str:
    """Run the demonstration; a second call finds the finished runs and only tells about them."""
    data = out / "data"
    if not (data / "dataset.json").exists():
        write_retina(data, images=IMAGES, size=PIXELS, seed=seed, outside="near")
    what = Comparison(read_study(STUDY), data, METHODS, [seed], out, engine)
    table = compare_and_tell(what)
    target = out / SUPER_MODEL
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(what.folder("fedsm", seed) / SUPER_MODEL, target)
    say_what_it_is(out)
    score_outside_hospital(out, data.with_name("data-outside"), seed)
    write_report([out], out / "report.html")
    return f"{table}\n\n{NOTE}\n\nreport: {out / 'report.html'}"


def say_what_it_is(out: Path) -> None:
    """Leave the note beside the comparison, for the report."""
    atomic_write_json(out / COMPARE, {**read_comparison(out), "note": NOTE})


def score_outside_hospital(out: Path, root: Path, seed: int, steps: int = USUAL_STEPS) -> None:
    """The hospital that took no part, in every mode the super model offers and with a few labels, for the report."""
    super_model = load_super_model(out / SUPER_MODEL)
    rows = score_outside(super_model, root, "outside")
    rows += score_with_labels(super_model, root, "outside", seed=seed, steps=steps)
    rows = on_the_rest(rows, root, "outside")
    atomic_write_json(out / OUTSIDE, {"seeds": [seed], "modes": summarize_outside({seed: rows}, GLOBAL)})


if __name__ == "__main__":
    sys.exit(main())
