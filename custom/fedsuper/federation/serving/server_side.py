"""The server's side of using a super model at the sites: offer, send what lacks, collect what sites may tell."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from fedsuper import __version__
from fedsuper.core.state import Models
from fedsuper.errors import FedSuperError
from fedsuper.federation.door.admission import admit
from fedsuper.federation.messages import Exchange, Message
from fedsuper.federation.progress import Progress
from fedsuper.federation.serving.held_models import identity_of, offered
from fedsuper.federation.serving.request import (
    OFFER,
    PREDICT,
    Lacking,
    PredictionSummary,
    Request,
    ScoreSummary,
    Summary,
    read_reply,
)
from fedsuper.federation.serving.summary import OTHER
from fedsuper.inference.artifact import load_super_model
from fedsuper.inference.modes import MODES

OFFER_SECONDS = 120.0
GRACE = 30.0  # seconds beyond a site's own deadline, for its answer to come


class Serving:
    """One request to all connected sites. A site that fails, is late or lies is named and costs nobody else."""

    def __init__(self, super_model: Path, request: Request, exchange: Exchange, progress: Progress) -> None:
        self.folder = Path(super_model)
        self.request = request
        self.exchange = exchange
        self.progress = progress
        self.failed: dict[str, str] = {}
        self.sent: dict[str, list[str]] = {}

    def run(self) -> dict[str, Any]:
        """What the sites told, as plain JSON; an error where none did."""
        manifest, identity = offered(self.folder), identity_of(self.folder)
        info = {"manifest": manifest, "identity": identity, "request": self.request.to_json()}
        sites = sorted(self.exchange.sites)
        if not sites:
            raise FedSuperError("no site is connected; start the sites and submit again")
        lacking = self._offer(sites, info)
        models = self._models(set().union(*lacking.values()))
        messages = {site: Message({key: models[key] for key in keys}, info) for site, keys in lacking.items()}
        self.sent = {site: list(message.models) for site, message in messages.items()}
        told: dict[str, Any] = {}
        replies = self.exchange(self.request.task, messages, self.request.seconds + GRACE) if messages else {}
        for site, summary in admit(replies, partial(self._checked, manifest), self._leave_out).items():
            told[site] = summary.to_json()
            self.progress.note(f"{site}: {describe(summary)}")
        if not told:
            reasons = "; ".join(f"{site}: {reason}" for site, reason in self.failed.items())
            raise FedSuperError(f"no site could do it ({reasons})")
        return {"supermodel": identity, "request": self.request.to_json(), "sites": told, "failed": self.failed}

    def _offer(self, sites: list[str], info: dict[str, Any]) -> dict[str, list[str]]:
        files = list(info["manifest"]["files"])

        def lacking(site: str, reply: Message) -> list[str]:
            answer = read_reply(Lacking, _info(reply), set(), ())
            if answer.version != __version__:
                raise FedSuperError(f"runs FedSuper {answer.version}, the server {__version__}; "
                                    "install the same version everywhere")
            if not set(answer.missing) <= set(files):
                raise FedSuperError("asks for models that were not offered")
            return [key for key in files if key in answer.missing]

        replies = self.exchange(OFFER, {site: Message(info=info) for site in sites}, OFFER_SECONDS)
        return admit(replies, lacking, self._leave_out)

    def _models(self, needed: set[str]) -> Models:
        models = load_super_model(self.folder).to_models() if needed else {}
        return {key: state for key, state in models.items() if key in needed}

    def _checked(self, manifest: dict[str, Any], site: str, reply: Message) -> Summary:
        models = {*manifest["sites"], *MODES, "global", OTHER}
        regions = {*manifest["task"]["regions"], "mean"}
        if self.request.task == PREDICT:
            summary = read_reply(PredictionSummary, _info(reply), models, ("shares",))
            read_reply(PredictionSummary, _info(reply), regions, ("dice",))
            return summary
        scores = read_reply(ScoreSummary, _info(reply), models, ("models",))
        if any(set(row) != regions for row in (scores.models or {}).values()):
            raise FedSuperError("its answer names other regions than the task has")
        return scores

    def _leave_out(self, site: str, reason: str) -> None:
        self.failed[site] = reason
        self.progress.note(f"warning: {site}: {reason}")


def describe(summary: Summary) -> str:
    """One line of what a site told."""
    if summary.images is None:
        return f"done in {summary.seconds:.0f} s; too few patients, nothing is told"
    text = f"{summary.images} images in {summary.seconds:.0f} s"
    if isinstance(summary, ScoreSummary):
        return text
    shares = ", ".join(f"{model} {share:.0%}" for model, share in (summary.shares or {}).items())
    counted = {"to look at": summary.review, "failed": summary.failed}
    counts = [f"{'a few' if count is None else count} {word}" for word, count in counted.items() if count != 0]
    dice = [f"Dice {summary.dice['mean']:.4f} over {summary.labeled}"] if summary.dice else []
    return "; ".join([text, shares, *counts, *dice])


def _info(reply: Message) -> dict[str, Any]:
    if reply.models:
        raise FedSuperError("its answer carries weights, which nobody asked for")
    return reply.info
