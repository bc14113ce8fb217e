"""`fedsuper predict`: masks for a folder of images, in the images' own geometry, every routing decision on record."""

from __future__ import annotations

import datetime
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from fedsuper import __version__
from fedsuper.data.images.io import Image, read_image
from fedsuper.data.images.masks import MaskFormat, check_format, write_mask
from fedsuper.display import Display
from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write, atomic_write_text, unhurried
from fedsuper.inference.modes.base import ModeOptions, create_mode
from fedsuper.inference.opening import open_predictor
from fedsuper.inference.predict.inputs import find_images, patients_of, plan
from fedsuper.inference.predict.pipeline import Pipeline
from fedsuper.inference.predict.preview import ContactSheet
from fedsuper.inference.predict.record import Record, alone_in
from fedsuper.inference.predict.routing_table import ROUTING, routing_csv, routing_rows
from fedsuper.inference.segment import Prediction, Segmenter
from fedsuper.inference.selection.familiarity import CANNOT_TELL
from fedsuper.inference.supermodel_manifest import MANIFEST

PREVIEW = "preview.jpg"
PROBABILITIES = "-probabilities.npz"
ABSTAINED = "abstain"


@dataclass(frozen=True)
class Output:
    """What is written: the masks' format, the regions' probabilities too, no mask where a person should look."""

    to: MaskFormat | None = None
    probabilities: bool = False
    abstain: bool = False


DEFAULT_OUTPUT = Output()


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
    output: Output = DEFAULT_OUTPUT,
    again: bool = False,
) -> int:
    """Segment every image behind `inputs` into `out`; returns 0, or 1 if some image could not be done.

    Writes a mask per image (same stem, same size and geometry), `routing.csv`, `preview.jpg` and `predict.json`. An
    unreadable image costs one line and itself only. What an earlier run with the same super model and settings has
    done is not done again, unless `again`. Nothing that no prediction wrote is overwritten.
    """
    folder, display = Path(super_model_folder), Display("predict", stream)
    predictor = open_predictor(folder, overrides)
    options = ModeOptions(gamma=gamma, vote=vote, routing_file=routing_file)
    segmenter = Segmenter(predictor, create_mode(predictor, mode, options))
    if output.abstain and segmenter.judge is None:
        raise FedSuperError("--abstain: this super model cannot tell which images are unlike its sites' (it was made "
                            "before there was familiarity, or too few images trained it); hand it over again")
    images, problems = find_images(inputs)
    for problem in problems:
        display.line(problem)
    if not images:
        raise FedSuperError("predict: no image among the inputs; give image files, folders of images or site folders")
    check_format(images, output.to)
    jobs = plan(images, output.to)
    settings = predictor.study.model_dump(mode="json", include={"routing", "modes", "prediction"})
    about: dict[str, Any] = {
        "fedsuper": __version__,
        "supermodel": {"folder": str(folder), "method": predictor.super_model.manifest.get("method"),
                       "sha256": hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()},
        "mode": mode or predictor.super_model.mode, "gamma": segmenter.mode.gamma, "vote": vote,
        "output": vars(output), "settings": settings, "routing_file": _digest(routing_file),
    }
    if len(predictor.flips) > 1:
        about["flips"] = predictor.flips  # masks of other flips, which a version before this averaged, are not kept
    with alone_in(Path(out)):
        record = Record(Path(out), about, jobs, again or segmenter.mode.carries_on)
        run = _Run(segmenter, record, output, display)
        run.start()
        run.segment()
        return 1 if run.finish() or problems else 0


@dataclass
class _Run:
    """One prediction over many images."""

    segmenter: Segmenter
    record: Record
    output: Output
    display: Display
    started: float = field(default_factory=time.monotonic)
    sheet: ContactSheet = field(init=False)

    def __post_init__(self) -> None:
        self.sheet = ContactSheet(len(self.record.entries))

    def start(self) -> None:
        """Note what will be done, and what cannot be told."""
        created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.record.start({"created": created, "device": str(self.segmenter.predictor.compute.device)})
        done = len(self.record.entries) - len(self.record.waiting)
        if done:
            self.display.line(f"{done} of {len(self.record.entries)} images were done before and stay as they are")
        if self.segmenter.judge is None:
            self.display.line(CANNOT_TELL)

    def segment(self) -> None:
        """All images that wait; adapting modes see all images first."""
        if self.segmenter.mode.adapts:
            self.segmenter.mode.prepare(self._readable())
        entries = self.record.entries
        patients = dict(enumerate(patients_of([Path(entry["image"]) for entry in entries])))
        waiting = _whole_patients(self.record.waiting, patients) if self.segmenter.mode.votes else self.record.waiting
        done = len(entries) - len(waiting)
        pipeline = Pipeline(self.segmenter, self._write, patients if self.segmenter.mode.votes else None)
        with closing(pipeline.run([(number, Path(entries[number]["image"])) for number in waiting])) as results:
            for number, result in results:
                if isinstance(result, FedSuperError):
                    entries[number]["problem"] = str(result)
                    self.display.line(str(result))
                done += 1
                self.display.count(done, len(entries), "images")
        self.display.close()

    def finish(self) -> int:
        """The table, the preview, the final record and the last lines; returns how many images could not be done."""
        entries, out = self.record.entries, self.record.out
        rows = [row for entry in entries for row in entry.get("rows", [])]
        atomic_write_text(out / ROUTING, routing_csv(rows, self.segmenter.predictor.classes))
        self._fill_sheet()
        if self.sheet.tiles:
            self.sheet.save(out / PREVIEW)
        self.record.finish({"seconds": round(time.monotonic() - self.started, 2)})
        done = sum("model" in entry for entry in entries)
        review = sum(any(row["review"] == "yes" for row in entry.get("rows", [])) for entry in entries)
        if review:
            what = "no mask was written for them" if self.output.abstain else "look at their masks"
            poor = " or have masks that are likely to be poor" if self.segmenter.least_quality else ""
            self.display.line(f"{review} of {done} images are unlike those of every site{poor} (review in {ROUTING}): "
                              f"{what}")
        self.display.line(f"{out}: {done} of {len(entries)} images segmented")
        return len(entries) - done

    def _write(self, number: int, image: Image, prediction: Prediction) -> None:
        """Everything about one image; runs beside the nets, in a writer's thread."""
        mask = self.record.entries[number]["mask"]
        abstained = self.output.abstain and bool(prediction.review)
        if abstained:
            (self.record.out / mask).unlink(missing_ok=True)  # of an earlier prediction that did not abstain
        else:
            regions = self.segmenter.predictor.task.regions
            names = {value: name for name, values in regions.items() for value in values}
            with unhurried():
                write_mask(self.record.out / mask, prediction.labels, image, self.output.to, names)
        if self.output.probabilities:
            _write_probabilities(self.record.out / mask, prediction, list(self.segmenter.predictor.task.regions))
        model = ABSTAINED if abstained else prediction.model
        if self.sheet.wants(number):
            self.sheet.add(number, image, prediction.labels, model, bool(prediction.review))
        rows = routing_rows(str(image.path), prediction, "" if abstained else mask)
        facts: dict[str, Any] = {"model": model, "rows": [row | {"model": model} if abstained else row for row in rows]}
        self.record.note(
            number, facts | ({"details": prediction.details[0]} if prediction.details and prediction.details[0] else {})
        )

    def _fill_sheet(self) -> None:
        """Tiles of images that an earlier run has done."""
        for number, entry in enumerate(self.record.entries):
            if self.sheet.wants(number) and number not in self.sheet.tiles and "model" in entry:
                try:
                    image = read_image(Path(entry["image"]))
                    labels = read_image(self.record.out / entry["mask"]).array[:, 0].astype(np.uint8)
                except FedSuperError:
                    continue
                if labels.shape == image.stack_shape:
                    review = any(row["review"] == "yes" for row in entry["rows"])
                    self.sheet.add(number, image, labels, entry["model"], review)

    def _readable(self) -> Iterator[torch.Tensor]:
        for entry in self.record.entries:
            try:
                yield self.segmenter.predictor.prepare(read_image(Path(entry["image"])))
            except FedSuperError:
                continue  # told when its turn comes


def _write_probabilities(mask: Path, prediction: Prediction, regions: Sequence[str]) -> None:
    """The regions' probabilities beside the mask, float16 `[Z, H, W]` each, by region."""
    stem = mask.name.removesuffix(".gz").rpartition(".")[0]
    maps = prediction.probabilities.numpy().astype(np.float16)
    arrays = {region: maps[:, index] for index, region in enumerate(regions)}

    def write(temporary: Path) -> None:
        np.savez_compressed(temporary, allow_pickle=False, **arrays)

    atomic_write(mask.with_name(stem + PROBABILITIES), write)


def _digest(file: Path | None) -> str | None:
    """Of a routing file that is there to be used; one that is still to be tuned changes nothing of what was asked."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file is not None and file.exists() else None


def _whole_patients(waiting: Sequence[int], patients: Mapping[int, str]) -> list[int]:
    """The images that wait and all others of their patients, whose vote they need; a patient's follow one another."""
    wanted = dict.fromkeys(patients[number] for number in waiting)
    groups: dict[str, list[int]] = {patient: [] for patient in wanted}
    for number, patient in patients.items():
        if patient in groups:
            groups[patient].append(number)
    return [number for group in groups.values() for number in group]
