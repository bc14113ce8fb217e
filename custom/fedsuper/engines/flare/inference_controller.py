"""The server that puts a super model to use at the sites, on NVFlare; apart from training, and without its rights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedsuper.engines.flare import settings
from fedsuper.engines.flare.contact.exchange import FlareExchange
from fedsuper.engines.flare.launch.events import RESULT, ServerProgress
from fedsuper.engines.flare.reporting_controller import ReportingController
from fedsuper.federation.serving.request import PREDICT, SCORE, Request
from fedsuper.federation.serving.server_side import Serving
from fedsuper.files import atomic_write_json


class ServingController(ReportingController):
    """One request to all sites; what they may tell is left as JSON in the job's run folder.

    `supermodel` is how the SHA-256 of the super model's `supermodel.json` begins (16 digits); the server must hold it.
    Without it, the one that FEDSUPER_SUPERMODEL names.
    """

    supermodel: str | None
    title = "serving"

    def request(self) -> Request:
        """What every site is asked to do."""
        raise TypeError(f"{type(self).__name__} must define request")

    def work(self, progress: ServerProgress, run_folder: Path, known: settings.Settings) -> None:
        """Ask, collect, write down."""
        folder = settings.super_model_of(known, self.supermodel)
        told: dict[str, Any] = Serving(folder, self.request(), FlareExchange(self, self.hearts), progress).run()
        out = settings.from_environment(settings.OUT)
        for path in (run_folder / RESULT, out):
            if path is not None:
                atomic_write_json(path, told)


class InferenceController(ServingController):
    """Every site segments its own inbox, images to the model that knows their kind (`mode: select`), through a net
    whose gates are tuned at the hospital (`route`), or in any other mode of `fedsuper predict`.

    `gamma` is the gate's threshold (None: the super model's own). `keep_gates` has `route` tune once per hospital and
    keep the gates there for its next images. `seconds` is each site's deadline.
    """

    title = "inference"
    _always_serialize_args = ("mode", "gamma", "vote", "keep_gates", "seconds", "supermodel")  # a job shows them all

    def __init__(self, mode: str | None = None, gamma: float | None = None, vote: str = "case",
                 keep_gates: bool = False, seconds: float = 3600, supermodel: str | None = None) -> None:
        super().__init__()
        self.mode = mode
        self.gamma = gamma
        self.vote = vote
        self.keep_gates = keep_gates
        self.seconds = seconds
        self.supermodel = supermodel

    def request(self) -> Request:
        return Request.model_validate({"task": PREDICT, "mode": self.mode, "gamma": self.gamma, "vote": self.vote,
                                       "keep_gates": self.keep_gates, "seconds": self.seconds})


class EvaluationController(ServingController):
    """Every site scores every model on one part of its own split: the full matrix, from data that never moves."""

    title = "evaluation"
    _always_serialize_args = ("split", "seconds", "supermodel")

    def __init__(self, split: str = "test", seconds: float = 3600, supermodel: str | None = None) -> None:
        super().__init__()
        self.split = split
        self.seconds = seconds
        self.supermodel = supermodel

    def request(self) -> Request:
        return Request.model_validate({"task": SCORE, "split": self.split, "seconds": self.seconds})
