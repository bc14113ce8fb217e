"""The super model's manifest: what a reader needs to rebuild the nets, and where the weights came from."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from fedsuper import __version__
from fedsuper.core.supermodel import SuperModel
from fedsuper.federation.outlet.noise import statement
from fedsuper.methods.protocol.method import Method
from fedsuper.methods.protocol.server import Best, HistoryEntry, Server

NOT_FOR_SITES = ("history", "traffic")
PACKAGES = ("torch", "monai", "numpy", "nvflare")


class Metrics(TypedDict):
    """What validation said of every model handed over, and how many rounds there were."""

    validation: dict[str, Best]
    rounds: int


class Provenance(TypedDict):
    """Where the weights came from: no name of an image, no figure of a single patient.

    `samples` counts the training samples of each site, `parts` those of every part of its split (a volume's slices).
    """

    created: str
    samples: dict[str, int]
    parts: dict[str, dict[str, int]]
    splits: dict[str, str]
    seed: int


class Manifest(TypedDict):
    """`supermodel.json` as a run begins it; calibration and hand-over add gamma, its curve and the test scores."""

    method: str
    paper: str
    mode: str
    sites: list[str]
    gamma: float | None
    task: dict[str, Any]
    study: dict[str, Any]
    versions: dict[str, str]
    metrics: Metrics
    provenance: Provenance
    history: list[HistoryEntry]


def split_digests(server: Server) -> dict[str, str]:
    """Digest of each site's frozen split, so that an evaluation can tell whether it scores what was held out."""
    return {name: digest for told in server.values["described"].values() for name, digest in told["splits"].items()}


def build_manifest(server: Server, super_model: SuperModel, method: Method[Any]) -> Manifest:
    """Plain JSON; the date is the only entry that differs between two identical runs."""
    return {
        "method": method.name,
        "paper": method.paper,
        "mode": super_model.mode,
        "sites": super_model.sites,
        "gamma": None,
        "task": server.task.to_json(),
        "study": server.study.to_json(),
        "versions": {"fedsuper": __version__, "python": platform.python_version(), **_installed()},
        "metrics": {"validation": server.best, "rounds": server.round},
        "provenance": {
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "samples": server.samples,
            "parts": {site: told["samples"] for site, told in server.values["described"].items()},
            "splits": split_digests(server),
            "seed": server.study.seed,
        },
        "history": server.history,
    }


def add_outcome(manifest: dict[str, Any], server: Server, scored: Mapping[str, Mapping[str, Any]]) -> None:
    """What is known at the very end: the sites' test scores, and what the study cost each site's privacy."""
    told = {site: {folder: row for folder, row in scores.items() if row} for site, scores in scored.items()}
    manifest["metrics"]["test"] = {site: rows for site, rows in told.items() if rows}
    if server.study.privacy.noise > 0:
        sent = {site: server.values.get("releases", {}).get(site, 0) for site in server.sites}
        manifest["privacy"] = statement(server.study, sent, server.values.get("sums", {}))


def manifest_for(site: str, manifest: Mapping[str, Any], elsewhere: Sequence[str] = ()) -> dict[str, Any]:
    """The manifest as `site` is sent it: what a predictor needs, and of the other sites' figures nothing.

    `elsewhere` are the sites whose models it is not handed over.
    """

    def own(figures: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in figures.items() if key.rpartition("/")[2] in ("", site) or "/" not in key}

    metrics, provenance = manifest["metrics"], manifest["provenance"]
    chosen = manifest.get("chosen")
    return {key: value for key, value in manifest.items() if key not in NOT_FOR_SITES} | {
        **({} if chosen is None else {"chosen": {site: chosen[site]} if site in chosen else {}}),
        **({"elsewhere": list(elsewhere)} if elsewhere else {}),
        "metrics": {**metrics, "validation": own(metrics["validation"])},
        "provenance": {**provenance, "samples": {site: provenance["samples"][site]} if site in provenance["samples"]
                       else {}},
    }


def _installed() -> dict[str, str]:
    """Versions of what computes; NVFlare is not there where a site only trains in process."""
    versions = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions
