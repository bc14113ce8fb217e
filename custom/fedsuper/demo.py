"""`make demo`: six synthetic hospitals train through the NVFlare simulator; a table and a report come out."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from fedsuper.config import read_study
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.engines.compare import Comparison, compare_and_tell
from fedsuper.errors import FedSuperError
from fedsuper.report.html import write_report

STUDY = Path(__file__).with_name("demo.yaml")
METHODS = ["centralized", "local", "fedavg", "fedsm"]
IMAGES, PIXELS = 400, 64


def main(arguments: list[str] | None = None) -> int:
    """Synthesise, train, score, report."""
    parser = argparse.ArgumentParser(prog="fedsuper.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/demo"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=["sim", "local"], default="sim")
    options = parser.parse_args(arguments)
    try:
        print(demo(options.out, options.seed, options.engine))
    except FedSuperError as problem:
        print(f"fedsuper: {problem}", file=sys.stderr)
        return 2
    return 0


def demo(out: Path, seed: int = 0, engine: str = "sim") -> str:
    """Run the demonstration; a second call finds the finished runs and only tells about them."""
    data = out / "data"
    if not (data / "dataset.json").exists():
        write_retina(data, images=IMAGES, size=PIXELS, seed=seed, outside=True)
    what = Comparison(read_study(STUDY), data, METHODS, [seed], out, engine)
    table = compare_and_tell(what)
    target = out / "supermodel"
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(what.folder("fedsm", seed) / "supermodel", target)
    write_report([out], out / "report.html")
    return f"{table}\n\nreport: {out / 'report.html'}"


if __name__ == "__main__":
    sys.exit(main())
