"""A site that uses a super model: takes what it lacks, works on its own folder, answers with what may leave."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedsuper import __version__
from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import Message
from fedsuper.federation.serving.held_models import HeldModels
from fedsuper.federation.serving.request import MINIMUM, OFFER, SUMMARIES, Lacking, Request
from fedsuper.federation.serving.work import NO_IMAGES, REFUSED, Work, run
from fedsuper.files import atomic_write_text, cut_back, read_json
from fedsuper.inference.artifact import safe_name

POLL = 0.2
LOG = "serving.log"
LONGEST_LOG = 5_000_000


@dataclass
class ServingSite:
    """One hospital. `folder` is what it keeps for this job, `states` what earlier ones left; nothing of them is sent.

    `stopped` tells that nobody waits for the answer any more. `isolated` works in a process of its own, so that the one
    that answers the server outlives a crash. Figures over fewer patients than `minimum` are withheld.
    """

    name: str
    inbox: Path
    outbox: Path
    folder: Path
    states: Sequence[Path] = ()
    stopped: Callable[[], bool] = field(default=lambda: False)
    isolated: bool = True
    minimum: int = MINIMUM

    def handle(self, task: str, message: Message) -> Message:
        """Answer one task. An error's text leaves the site, so it is one of a few fixed sentences without a name."""
        manifest = message.info["manifest"]
        identity = safe_name(str(message.info["identity"]))
        held = HeldModels([*(state / "supermodel" for state in self.states), *self.folder.glob("supermodels/*")])
        if task == OFFER:
            return Message(info=Lacking(version=__version__, missing=held.missing(manifest)).to_json())
        request = Request.model_validate(message.info["request"])
        if task != request.task or task not in SUMMARIES:
            raise FedSuperError(f"unknown task '{task}'; the server runs another FedSuper version")
        super_model = self.folder / "supermodels" / identity
        held.assemble(super_model, manifest, message.models)
        return Message(info=self._work(request, super_model))

    def _work(self, request: Request, super_model: Path) -> dict[str, Any]:
        answer = self.folder / "answer.json"
        answer.unlink(missing_ok=True)
        work = Work(
            request=request, super_model=super_model, inbox=self.inbox, outbox=self.outbox, states=list(self.states),
            gates=self.folder / f"gates-{super_model.name}.safetensors", answer=answer,
            minimum=self.minimum,
        )
        atomic_write_text(self.folder / "work.json", work.model_dump_json(indent=2))
        path = self.folder / "work.json"
        code = self._run_child(path, request.seconds) if self.isolated else run(path)
        if code == NO_IMAGES:
            raise FedSuperError("has no image in its inbox")
        if code == REFUSED:
            raise FedSuperError("could not do it; its own log says why")
        if code is None:
            raise FedSuperError(f"was not done within {request.seconds:g} s; what is done stays, ask again")
        if code or not answer.exists():
            raise FedSuperError(f"its process died (exit {code}), often for lack of memory; its own log says more")
        return SUMMARIES[request.task].model_validate(read_json(answer, "ask again")).to_json()

    def _run_child(self, work: Path, seconds: float) -> int | None:
        """The exit code of the working process, None where it was ended for being late or no longer wanted."""
        command = [sys.executable, "-m", "fedsuper.federation.serving.work", str(work)]
        cut_back(self.folder / LOG, LONGEST_LOG)
        with open(self.folder / LOG, "ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        deadline = time.monotonic() + seconds
        try:
            while True:
                try:
                    return process.wait(POLL)
                except subprocess.TimeoutExpired:
                    if self.stopped() or time.monotonic() > deadline:
                        return None
        finally:
            process.kill()
            process.communicate()
