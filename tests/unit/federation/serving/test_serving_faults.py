"""Sites that serve badly: without images, late, killed, lying; each costs nobody but itself."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from pathlib import Path

import psutil
import pytest
from serving_requests import ask, exchange_of
from serving_sites import RecordingExchange, serving_site

from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import Message, SiteFailure
from fedsuper.federation.serving.request import PREDICT
from fedsuper.federation.serving.site import LOG, LONGEST_LOG


def test_a_site_without_images_and_one_with_bad_ones_are_named(folder: Path, own_root: Path, tmp_path: Path) -> None:
    for path in (own_root / "site-1" / "images").iterdir():
        path.unlink()
    bad = sorted((own_root / "site-2" / "images").iterdir())[0]
    bad.write_bytes(b"no picture")
    told, _ = ask(folder, exchange_of(own_root, tmp_path), mode="global")
    assert told["failed"] == {"site-1": "has no image in its inbox"}
    assert told["sites"]["site-2"]["failed"] is None and told["sites"]["site-2"]["images"] == 11
    assert told["sites"]["site-3"]["failed"] == 0
    assert bad.name not in json.dumps(told)  # not its stem, 0001: digits that any number may hold


def test_a_site_that_is_late_is_named_and_goes_on_where_it_was(folder: Path, tiny_root: Path, tmp_path: Path) -> None:
    exchange = RecordingExchange({"site-1": serving_site("site-1", tiny_root, tmp_path, isolated=True)})
    with pytest.raises(FedSuperError, match="site-1: was not done within 0.01 s"):
        ask(folder, exchange, mode="global", seconds=0.01)
    exchange.workers["site-1"].isolated = False
    told, _ = ask(folder, exchange, mode="global")
    assert told["sites"]["site-1"]["images"] == 12


def test_a_killed_process_costs_its_site_the_request_only(folder: Path, tiny_root: Path, tmp_path: Path) -> None:
    """The process that answers the server lives: in POC and production its death would end the whole job."""
    first = serving_site("site-1", tiny_root, tmp_path, isolated=True)
    exchange = RecordingExchange({"site-1": first, "site-2": serving_site("site-2", tiny_root, tmp_path)})
    victim = str(tmp_path / "site-1" / "serving" / "work.json")
    first.folder.mkdir(parents=True)
    (first.folder / LOG).write_bytes(b"x" * (LONGEST_LOG + 1))  # it begins anew before it grows further
    done = threading.Event()

    def kill() -> None:
        while not done.is_set():
            for child in psutil.Process(os.getpid()).children():
                with contextlib.suppress(psutil.Error):  # one that ends just now
                    if victim in child.cmdline():
                        child.kill()
                        return

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        told, _ = ask(folder, exchange, mode="global")
    finally:
        done.set()
        killer.join()
    assert "its process died (exit -9)" in told["failed"]["site-1"]
    assert (first.folder / f"{LOG}.1").stat().st_size > LONGEST_LOG > (first.folder / LOG).stat().st_size
    assert list(told["sites"]) == ["site-2"]


GOOD = {"images": 12, "shares": {"global": 1.0}, "confidence": 0.5, "review": 0, "failed": 0, "seconds": 1.0,
        "dice": None, "labeled": None}
LIES = {
    "one key more": {**GOOD, "names": ["patient"]},
    "a share above one": {**GOOD, "shares": {"global": 1.5}},
    "a share that is no number": {**GOOD, "confidence": float("nan")},
    "a text for a count": {**GOOD, "images": "12"},
    "a model nobody sent": {**GOOD, "shares": {"patient-7": 1.0}},
    "a region nobody has": {**GOOD, "dice": {"patient-7": 0.5, "mean": 0.5}},
    "a missing key": {key: value for key, value in GOOD.items() if key != "failed"},
    "negative time": {**GOOD, "seconds": -1.0},
    "no object": ["images"],
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_what_does_not_fit_costs_the_liar_alone(lie, folder: Path, tiny_root: Path, tmp_path: Path) -> None:
    class Instant(RecordingExchange):
        def _ask(self, task, site, message):
            if task == PREDICT:
                return Message(info=lie if site == "site-1" else GOOD)
            return super()._ask(task, site, message)

    exchange = Instant({site: serving_site(site, tiny_root, tmp_path) for site in ("site-1", "site-2")})
    told, _ = ask(folder, exchange, mode="global")
    assert list(told["sites"]) == ["site-2"] and "its answer" in told["failed"]["site-1"]


def test_weights_nobody_asked_for_are_refused(folder: Path, tiny_root: Path, tmp_path: Path) -> None:
    import torch

    exchange = RecordingExchange({site: serving_site(site, tiny_root, tmp_path) for site in ("site-1", "site-2")})
    exchange.lies = {"site-1": Message({"images": {"pixels": torch.zeros(3)}}, GOOD), "site-2": SiteFailure("no power")}
    with pytest.raises(FedSuperError, match="site-1: its answer carries weights.*site-2: no power"):
        ask(folder, exchange, mode="global")
