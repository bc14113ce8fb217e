"""What `fedsuper predict` costs beside a bare loop, beside an ensemble, and in memory as sites are added.

The bare loop is the least a program can do: open the picture with Pillow, resize nothing, normalize, one forward pass
of one net, threshold, save. `predict` also opens and checks the super model, selects among the sites' models, judges
how familiar the image is, waits until the disk has the mask, keeps a record that survives a kill, and draws the
preview. Both run in turn on the same files into new folders, so that both meet the same machine; ratios are medians
over the turns.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from PIL import Image

from fedsuper.bench.bare_loop import WARM_UP, BareLoop, expert_weights, study_of
from fedsuper.bench.peak_memory import peak_megabytes
from fedsuper.core.calibration import choose_candidate, evaluate_candidates
from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.supermodel import SuperModel
from fedsuper.inference.artifact import save_super_model
from fedsuper.inference.passes import run_passes
from fedsuper.inference.predict.predict_paths import predict_paths
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.closed_form import with_sums
from fedsuper.models.build import build_selector, first_weights
from fedsuper.train.device import Compute

TASK = {"task": "retina", "channels": 3, "regions": {"disc": [1, 2], "cup": [2]}}
FILES, SITES, TURNS = 200, 6, 3
LEAST_RATE = {256: 0.95, 64: 0.7}  # of the bare loop's, by image side
LEAST_OVER_ENSEMBLE = 4.0
MANY_SITES, FEW_SITES, MEMORY_FILES = 50, 5, 32
MOST_MEMORY = 1.5  # of the memory for few sites


def run(out: Path, files: int = FILES, turns: int = TURNS) -> dict[str, Any]:
    """Rates at both sizes and peak memory for few and many sites, all in this one run."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=_made(out)) as work:
        rates = {side: rates_at(side, Path(work) / str(side), files, turns) for side in LEAST_RATE}
        memory = memory_by_sites(Path(work) / "memory")
    large = max(rates)
    table = {f"{side} px": values for side, values in rates.items()}
    kept = {
        f"select at {least:g} or more of the bare loop's rate at {side} px": rates[side]["select_of_bare"] >= least
        for side, least in LEAST_RATE.items()
    }
    over = rates[large]["select_of_ensemble"]
    growth = memory[MANY_SITES] / memory[FEW_SITES]
    return {
        "setting": f"UNet 16..256, {files} PNG files, {SITES} sites, familiarity judged, medians of {turns} turns, "
                   f"{os.cpu_count()} cores",
        **table,
        "peak_megabytes": {f"{count} sites": value for count, value in memory.items()},
        "memory_growth": growth,
        "promises": kept | {
            f"select at {LEAST_OVER_ENSEMBLE:g} times the rate of ensemble or more": over >= LEAST_OVER_ENSEMBLE,
            f"{MANY_SITES} sites within {MOST_MEMORY:g} of the memory of {FEW_SITES}": growth <= MOST_MEMORY,
        },
    }


def rates_at(side: int, work: Path, files: int, turns: int) -> dict[str, float]:
    """Images a second of the bare loop, of select and of ensemble, and their ratios."""
    images = make_images(work / "images", side, files)
    folder = make_super_model(work / "supermodel", side, SITES, images)
    seconds: dict[str, list[float]] = {"bare": [], "select": [], "ensemble": []}
    numbers = itertools.count()

    def predicted(mode: str, paths: list[Path]) -> None:
        out = work / f"masks-{next(numbers)}"  # what was there before is deleted when nobody looks at the clock
        assert predict_paths(folder, paths, out, mode, gamma=0.0, stream=io.StringIO()) == 0

    predicted("select", images[:WARM_UP])
    with BareLoop(side, work / "images") as bare:
        for _ in range(turns):
            seconds["bare"].append(bare.seconds(work / f"bare-{next(numbers)}") / len(images))
            seconds["select"].append(_seconds(lambda: predicted("select", images)) / len(images))
            seconds["ensemble"].append(_seconds(lambda: predicted("ensemble", images)) / len(images))
    pairs = zip(seconds["bare"], seconds["select"], seconds["ensemble"], strict=True)
    ratios = [(bare / select, ensemble / select) for bare, select, ensemble in pairs]
    return {f"{name}_per_second": 1 / median(values) for name, values in seconds.items()} | {
        "select_of_bare": median(one for one, _ in ratios),
        "select_of_ensemble": median(other for _, other in ratios),
    }


def memory_by_sites(work: Path) -> dict[int, float]:
    """Peak megabytes of a process that predicts images which choose among few and among many sites' models."""
    side = max(LEAST_RATE)
    images = make_images(work / "images", side, MEMORY_FILES)
    found = {}
    for count in (FEW_SITES, MANY_SITES):
        folder = make_super_model(work / f"supermodel-{count}", side, count, images)
        command = [sys.executable, "-m", "fedsuper.bench.predict", str(folder), str(work / "images"), str(work / "out")]
        shutil.rmtree(work / "out", ignore_errors=True)
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found[count] = float(json.loads(told)["peak_megabytes"])
    return found


def make_images(folder: Path, side: int, count: int) -> list[Path]:
    """Pictures that compress about as photographs do: smooth, with a little noise, each with a tint of its own."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    paths = []
    for number in range(count):
        coarse = Image.fromarray(random.integers(40, 215, (9, 9, 3), dtype=np.uint8)).resize((side, side))
        pixels = np.asarray(coarse) * random.uniform(0.3, 1.0, 3) + random.normal(0, 2, (side, side, 3))
        paths.append(folder / f"{number:04d}.png")
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(paths[-1])
    return paths


def make_super_model(folder: Path, side: int, sites: int, images: list[Path]) -> Path:
    """Untrained experts, a selector that spreads images over them, and feature sums to judge familiarity by."""
    study = study_of(side)
    names = [f"site-{number:02d}" for number in range(sites)]
    first = expert_weights(study)
    random = torch.Generator().manual_seed(0)
    personal = {name: {key: t + 0.01 * torch.randn(t.shape, generator=random) for key, t in first.items()}
                for name in names}
    selector = first_weights(lambda: build_selector(study.selector, 3, sites), 1)
    selector["head.weight"] *= 20
    manifest = {"method": "fedsm", "gamma": 0.0, "task": TASK, "study": study.to_json(), "metrics": {}}
    whole = SuperModel(names, first, personal, selector, "select", manifest)
    compute = Compute(torch.device("cpu"))
    predictor = Predictor(whole, compute)
    seen = torch.stack([_prepared(path) for path in images[:24]])
    features = run_passes(predictor.feature_net(), seen, compute).double()
    sums = [FeatureSums.of(features[label % 2 :: 2]) for label in range(sites)]
    counts = {name: evaluate_candidates(sums, features, label, list(range(len(features))))
              for label, name in enumerate(names[:2])}
    save_super_model(with_sums(whole, sums, choose_candidate(counts)), folder)
    return folder


def _prepared(path: Path) -> torch.Tensor:
    pixels = torch.from_numpy(np.asarray(Image.open(path), dtype=np.float32)).permute(2, 0, 1)
    return (pixels - pixels.mean()) / pixels.std()


def _made(out: Path) -> Path:
    Path(out).mkdir(parents=True, exist_ok=True)
    return Path(out)


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


if __name__ == "__main__":
    torch.set_num_threads(1)
    predict_paths(Path(sys.argv[1]), [Path(sys.argv[2])], Path(sys.argv[3]), gamma=0.0, stream=io.StringIO())
    print(json.dumps({"peak_megabytes": peak_megabytes()}))
