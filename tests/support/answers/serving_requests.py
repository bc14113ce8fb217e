"""Asking the sites of a data root to use a super model."""

from __future__ import annotations

from pathlib import Path

from serving_sites import RecordingExchange, serving_site

from fedsuper.data.layout import find_sites
from fedsuper.federation.progress import Silent
from fedsuper.federation.serving.request import Request
from fedsuper.federation.serving.server_side import Serving


def masks(folder: Path) -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in folder.glob("*.png")}
    assert found
    return found


def exchange_of(root: Path, run: Path) -> RecordingExchange:
    return RecordingExchange({site: serving_site(site, root, run) for site in find_sites(root)})


def ask(folder: Path, exchange: RecordingExchange, **request: object) -> tuple[dict, Serving]:
    serving = Serving(folder, Request.model_validate(request), exchange, Silent())
    return serving.run(), serving
