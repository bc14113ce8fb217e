"""`fedsuper predict`: masks for a folder of images, in the images' own geometry, every routing decision on record."""

from __future__ import annotations

import csv
import datetime
import hashlib
import io
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import torch

from fedsuper import __version__
from fedsuper.data.image_io import read_image, write_mask
from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write_json, atomic_write_text
from fedsuper.inference.artefact import MANIFEST, load_super_model
from fedsuper.inference.inputs import Job, find_images, plan
from fedsuper.inference.modes import Mode, ModeOptions, create_mode
from fedsuper.inference.predictor import Prediction, Predictor
from fedsuper.inference.preview import ContactSheet
from fedsuper.inference.routing_settings import override_routing

ROUTING = "routing.csv"
PREVIEW = "preview.jpg"
RUN = "predict.json"


def predict_paths(
    super_model_folder: Path,
    inputs: Sequence[Path],
    out: Path,
    mode: str | None = None,
    gamma: float | None = None,
    vote: str = "case",
    routing_file: Path | None = None,
    stream: TextIO | None = None,
    overrides: Sequence[str] = (),
) -> int:
    """Segment every image behind `inputs` into `out`; returns 0, or 1 if some image could not be done.

    Writes a mask per image (same stem, same size and geometry), `routing.csv`, `preview.jpg` and `predict.json`. An
    unreadable image costs one line and itself only. Nothing that an earlier prediction did not write is overwritten.
    """
    stream = stream or sys.stderr
    predictor = Predictor(override_routing(load_super_model(Path(super_model_folder)), overrides))
    chosen_mode = create_mode(predictor, mode, ModeOptions(gamma=gamma, vote=vote, routing_file=routing_file))
    images, problems = find_images(inputs)
    for problem in problems:
        print(f"fedsuper: {problem}", file=stream)
    if not images:
        raise FedSuperError("predict: no image among the inputs; give image files, folders of images or site folders")
    run = _Run(predictor, chosen_mode, plan(images), Path(out), stream, failures=len(problems))
    run.start(Path(super_model_folder), mode or predictor.super_model.mode, vote)
    run.segment()
    run.finish()
    return 1 if run.failures else 0


@dataclass
class _Run:
    """One prediction over many images: what is planned, what came out."""

    predictor: Predictor
    mode: Mode
    jobs: list[Job]
    out: Path
    stream: TextIO
    failures: int = 0
    sheet: ContactSheet = field(init=False)
    rows: list[list[str]] = field(default_factory=list)
    record: dict[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.sheet = ContactSheet(len(self.jobs))

    def start(self, super_model_folder: Path, mode: str, vote: str) -> None:
        """Refuse to overwrite what is not ours, then note what will be written, so that a broken run can be redone."""
        earlier = _earlier_masks(self.out)
        sources = {job.image.resolve() for job in self.jobs}
        foreign = [job.mask for job in self.jobs if (target := self.out / job.mask).exists()
                   and (job.mask not in earlier or target.resolve() in sources)]
        if foreign:
            raise FedSuperError(f"{self.out / foreign[0]}: is there already and was not written by a prediction "
                                f"({len(foreign)} such file(s)); choose another --out")
        manifest = (super_model_folder / MANIFEST).read_bytes()
        self.record = {
            "fedsuper": __version__,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "supermodel": {
                "folder": str(super_model_folder), "method": self.predictor.super_model.manifest.get("method"),
                "sha256": hashlib.sha256(manifest).hexdigest(),
            },
            "mode": mode, "gamma": self.mode.gamma, "vote": vote, "device": str(self.predictor.compute.device),
            "complete": False,
            "images": [{"image": str(job.image), "mask": job.mask} for job in self.jobs],
            "kept": sorted(earlier),
        }
        atomic_write_json(self.out / RUN, self.record)

    def segment(self) -> None:
        """Every image in turn; adaptive modes see all of them first."""
        if self.mode.adapts:
            self.mode.prepare(self._readable())
        for number, (job, entry) in enumerate(zip(self.jobs, self.record["images"], strict=True), start=1):
            try:
                image = read_image(job.image)
                prediction = self.predictor.predict_prepared(self.predictor.prepare(image), image.size, self.mode)
                write_mask(self.out / job.mask, prediction.labels, image)
            except FedSuperError as problem:
                entry["problem"] = str(problem)
                self._fail(str(problem))
                continue
            entry["model"] = "+".join(dict.fromkeys(prediction.chosen))
            if prediction.details:
                entry["details"] = prediction.details[0]
            self.rows += _routing_rows(job, prediction)
            if self.sheet.wants(number - 1):
                self.sheet.add(image, prediction.labels, entry["model"])
            self._tell(number)

    def finish(self) -> None:
        """The table, the preview and the final record."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        probabilities = [f"p_{name}" for name in self.predictor.classes]
        writer.writerow(["image", "slice", "model", *probabilities, "gamma", "mask"])
        writer.writerows(self.rows)
        atomic_write_text(self.out / ROUTING, text.getvalue())
        if self.sheet.tiles:
            self.sheet.save(self.out / PREVIEW)
        self.record |= {"complete": True, "seconds": round(time.monotonic() - self.started, 2)}
        atomic_write_json(self.out / RUN, self.record)
        done = sum("model" in entry for entry in self.record["images"])
        print(f"{self.out}: {done} of {len(self.jobs)} images segmented", file=self.stream)

    def _readable(self) -> Iterator[torch.Tensor]:
        for job in self.jobs:
            try:
                yield self.predictor.prepare(read_image(job.image))
            except FedSuperError:
                continue  # told when its turn comes

    def _fail(self, problem: str) -> None:
        self.failures += 1
        print(f"{self._line_start()}fedsuper: {problem}", file=self.stream)

    def _line_start(self) -> str:
        return "\r\033[K" if self.stream.isatty() else ""

    def _tell(self, number: int) -> None:
        total = len(self.jobs)
        if self.stream.isatty():
            left = (time.monotonic() - self.started) / number * (total - number)
            print(f"{self._line_start()}{number}/{total} images, {left:.0f} s left", end="" if number < total else "\n",
                  file=self.stream, flush=True)
        elif total >= 20 and number % (total // 10) == 0:
            print(f"{number}/{total} images", file=self.stream, flush=True)


def _routing_rows(job: Job, prediction: Prediction) -> list[list[str]]:
    """One row for an image, with its slices' mean probabilities; one per slice where their models differ."""
    gamma = "" if prediction.gamma is None else f"{prediction.gamma:g}"
    q = prediction.selector
    whole = len(set(prediction.chosen)) == 1
    models = prediction.chosen[:1] if whole else prediction.chosen
    rows = []
    for index, model in enumerate(models):
        values = [] if q is None else (q.mean(dim=0) if whole else q[index]).tolist()
        shown = [f"{value:.6f}" for value in values] or [""] * len(prediction.classes)
        rows.append([str(job.image), "" if whole else str(index), model, *shown, gamma, job.mask])
    return rows


def _earlier_masks(out: Path) -> set[str]:
    """The masks that earlier predictions into this folder have written or planned."""
    try:
        record = json.loads((out / RUN).read_text(encoding="utf-8"))
        return {entry["mask"] for entry in record["images"]} | set(record["kept"])
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FedSuperError(f"{out / RUN}: is not a prediction's record ({error}); choose another --out") from None
