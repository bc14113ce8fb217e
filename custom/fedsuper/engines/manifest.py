"""The super model's manifest: what a reader needs to rebuild the nets, and where the weights came from."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
from typing import Any

from fedsuper import __version__
from fedsuper.core.supermodel import SuperModel
from fedsuper.methods.base import Method
from fedsuper.methods.server import Server

PACKAGES = ("torch", "monai", "numpy", "nvflare")


def build_manifest(server: Server, super_model: SuperModel, method: Method) -> dict[str, Any]:
    """Plain JSON; the date is the only entry that differs between two identical runs."""
    return {
        "method": method.name,
        "paper": method.paper,
        "mode": super_model.mode,
        "sites": super_model.sites,
        "gamma": None,
        "task": server.task.to_json(),
        "study": server.study.to_json(),
        "versions": {"fedsuper": __version__, "python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in PACKAGES},
        "metrics": {"validation": server.best, "rounds": server.round},
        "provenance": {
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "samples": server.samples,
            "seed": server.study.seed,
        },
        "history": server.history,
    }
