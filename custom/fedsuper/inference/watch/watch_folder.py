"""The loop of `fedsuper watch`: look, predict what is complete, rest, until told to stop."""

from __future__ import annotations

import datetime
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedsuper.data.images.io import images_of_folder, read_image
from fedsuper.data.images.masks import MaskFormat, mask_suffix, write_mask
from fedsuper.data.layout import stem_of
from fedsuper.errors import FedSuperError
from fedsuper.inference.modes.base import ModeOptions, create_mode
from fedsuper.inference.predict.routing_table import routing_csv, routing_rows
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.segment import segment
from fedsuper.inference.selection.familiarity import CANNOT_TELL, Familiarity
from fedsuper.inference.watch.inbox import Arrival, Inbox
from fedsuper.inference.watch.outbox import Outbox

TABLES_EVERY = 50


@dataclass
class Watch:
    """One super model between an inbox and an outbox."""

    predictor: Predictor
    inbox: Inbox
    outbox: Outbox
    mode: str | None = None
    gamma: float | None = None
    to: MaskFormat | None = None
    poll: float = 2.0
    stop: threading.Event = field(default_factory=threading.Event)
    started: str = field(default_factory=lambda: _now())

    def run(self, once: bool = False) -> int:
        """Work until stopped; `once`: until everything that is in the inbox now is done. Returns the refusals."""
        refused = 0
        with self.outbox.owned():
            while not self.stop.is_set():
                arrivals, arriving = self.inbox.arrivals()
                waiting = [arrival for arrival in arrivals if arrival.mark not in self.outbox.done]
                for number, arrival in enumerate(waiting, start=1):
                    if self.stop.is_set():
                        break
                    refused += not self._handle(arrival)
                    if number % TABLES_EVERY == 0:
                        self._tables(len(waiting) - number + arriving)
                self._tables(arriving)
                if once and not waiting and not arriving:
                    break
                self.stop.wait(self.poll)
        return refused

    def _handle(self, arrival: Arrival) -> bool:
        """Predict one image; False where it was refused. One that changes meanwhile waits for the next look."""
        try:
            path = _the_image(arrival.path)
            image = read_image(path)
            prediction = segment(self.predictor, image, self.mode, gamma=self.gamma)
            if not self.inbox.unchanged(arrival):
                return True
            mask = self.outbox.free_name(stem_of(arrival.path), mask_suffix(path, self.to))
            names = {value: name for name, values in self.predictor.task.regions.items() for value in values}
            record = {"image": arrival.path.name, "rows": routing_rows(arrival.path.name, prediction, mask)}
            self.outbox.add(arrival.mark, mask, record,
                            lambda target: write_mask(target, prediction.labels, image, self.to, names))
        except FedSuperError as problem:
            if self.inbox.unchanged(arrival):
                self._refuse(arrival, str(problem))
                return False
            return True  # torn because it was still arriving
        except OSError:
            if self.inbox.unchanged(arrival):
                raise  # the outbox's disk: nothing is wrong with the image
            return True  # it was taken away again
        self._tell(f"{arrival.path.name}: {mask}")
        return True

    def _refuse(self, arrival: Arrival, reason: str) -> None:
        aside = self.inbox.refuse(arrival, reason)
        if aside is None:  # an inbox that is not ours to change: remember instead
            self.outbox.add_refusal(arrival.mark, arrival.path.name, reason)
        self._tell(f"{arrival.path.name}: refused ({reason})")

    def _tables(self, waiting: int) -> None:
        masks = [record for record in self.outbox.done.values() if record["mask"] is not None]
        rows = [row for record in masks for row in record.get("rows") or [record["row"]]]  # earlier versions: one row
        self.outbox.write_tables(
            routing_csv(rows, self.predictor.classes),
            {"pid": os.getpid(), "started": self.started, "looked": _now(), "masks": len(masks), "waiting": waiting},
        )

    def _tell(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def watch(
    super_model_folder: Path,
    inbox: Path,
    outbox: Path,
    once: bool = False,
    settle: float = 2.0,
    overrides: Sequence[str] = (),
    **options: Any,
) -> int:
    """`fedsuper watch`: 0 when stopped by SIGTERM or finished `once`, 1 if `once` and something was refused."""
    from fedsuper.inference.artifact import load_super_model
    from fedsuper.inference.overrides import override_prediction

    inbox, outbox = Path(inbox).resolve(), Path(outbox).resolve()
    if not inbox.is_dir():
        raise FedSuperError(f"{inbox}: there is no such inbox; make the folder that images arrive in")
    if outbox == inbox or inbox in outbox.parents:
        raise FedSuperError(f"{outbox}: lies in the inbox, so masks would be taken for images; give a folder beside it")
    predictor = Predictor(override_prediction(load_super_model(super_model_folder), overrides))
    # A mistake in the call is told now: no image is refused for it.
    create_mode(predictor, options.get("mode"), ModeOptions(gamma=options.get("gamma")))
    if Familiarity.of(predictor) is None:
        print(CANNOT_TELL, file=sys.stderr, flush=True)
    one = Watch(predictor, Inbox(inbox, settle), Outbox(outbox), **options)
    with _stopped_by_signal(one.stop):
        refused = one.run(once)
    return 1 if once and refused else 0


def _the_image(path: Path) -> Path:
    """A file is an image; a folder must be one DICOM series."""
    if not path.is_dir():
        return path
    found = images_of_folder(path)
    if found != [path]:
        raise FedSuperError(f"{path.name}: is a folder but no DICOM series; put single images into the inbox itself")
    return path


@contextmanager
def _stopped_by_signal(stop: threading.Event) -> Iterator[None]:
    """SIGTERM lets the image under way be finished, then ends."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
