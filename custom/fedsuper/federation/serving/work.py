"""One site's work on one request, in a process of its own: `python -m fedsuper.federation.serving.work WORK.json`.

The process that answers the server lives on when this one runs out of memory, crashes in a driver or is too slow.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from fedsuper.core.mode import GLOBAL
from fedsuper.data.layout import list_items
from fedsuper.data.task import Task
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.cases import CaseStore, splits_in
from fedsuper.evaluation.evaluate import evaluate_modes, site_means
from fedsuper.federation.serving.request import MINIMUM, SCORE, Request, ScoreSummary, Summary
from fedsuper.federation.serving.summary import segmented_images, summarize
from fedsuper.files import atomic_write_json
from fedsuper.inference.artifact import load_super_model
from fedsuper.inference.modes import SITE_PREFIX
from fedsuper.inference.predict.inputs import find_images
from fedsuper.inference.predict.predict_paths import predict_paths
from fedsuper.inference.supermodel_manifest import read_manifest
from fedsuper.schema import Strict

NO_IMAGES, REFUSED = 3, 4  # exit codes


class Work(Strict):
    """What the child process needs to know; it never leaves the site."""

    request: Request
    super_model: Path
    inbox: Path  # images, or a site's folder with images/ and perhaps labels/
    outbox: Path
    gates: Path
    states: list[Path]  # where a training may have left its frozen split
    answer: Path
    minimum: int = MINIMUM  # figures over fewer patients are withheld


def predict(work: Work) -> Summary:
    """Segment the inbox into the outbox with the code of `fedsuper predict`; masks that are there already stay."""
    started = time.monotonic()
    request = work.request
    images, _ = find_images([work.inbox])
    predict_paths(
        work.super_model, [work.inbox], work.outbox, request.mode, request.gamma, request.vote,
        routing_file=work.gates if request.keep_gates else None,
    )
    listed = list_items(work.inbox, require_labels=False) if (work.inbox / "images").is_dir() else []
    task = Task.from_json(read_manifest(work.super_model)["task"])
    rows = segmented_images(work.outbox, images, {item.image: item for item in listed}, task)
    return summarize(rows, len(images) - len(rows), time.monotonic() - started, work.minimum)


def score(work: Work) -> Summary:
    """Every model, and the super model as a whole, on one part of the site's own split."""
    started = time.monotonic()
    super_model = load_super_model(work.super_model)
    modes = {name: GLOBAL if name == GLOBAL else f"{SITE_PREFIX}{name}" for name in super_model.experts()}
    modes[super_model.mode] = super_model.mode
    store = CaseStore(work.inbox.parent, splits_in(work.states))
    rows = evaluate_modes(super_model, work.inbox.parent, list(dict.fromkeys(modes.values())), work.request.split,
                          sites=[work.inbox.name], store=store)
    patients = {row.case for row in next(iter(rows.values()))}
    seconds = time.monotonic() - started
    if len(patients) < work.minimum:
        return ScoreSummary(images=None, models=None, seconds=seconds)
    means = {name: site_means(rows[mode]) for name, mode in modes.items()}
    images = len(next(iter(rows.values())))
    told = {name: {key: value for key, value in mean.items() if key != "n"} for name, mean in means.items()}
    return ScoreSummary(images=images, models=told, seconds=seconds)


def run(path: Path) -> int:
    """Do the work described in `path`: 0 with the answer written, or a code that says why not; details are printed."""
    work = Work.model_validate_json(path.read_text(encoding="utf-8"))
    try:
        if not find_images([work.inbox])[0]:
            return NO_IMAGES
        summary = score(work) if work.request.task == SCORE else predict(work)
    except FedSuperError as problem:
        print(f"fedsuper: {problem}", file=sys.stderr)
        return REFUSED
    atomic_write_json(work.answer, summary.to_json())
    return 0


def main() -> int:
    """Work as a process of its own."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    return run(Path(sys.argv[1]))


def _end_with_parent() -> None:
    """Standard input is a pipe from the process that answers the server: when that is gone, so is the question."""
    while os.read(0, 1):
        continue
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
