"""A super model at work at the sites: the masks of `fedsuper predict`, and nothing that leaves but sums."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import psutil
import pytest
from serving_sites import RecordingExchange, serving_site
from super_models import random_super_model

from fedsuper.core.supermodel import SuperModel
from fedsuper.data.layout import find_sites
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.cases import CaseStore
from fedsuper.evaluation.evaluate import site_by_model
from fedsuper.federation.messages import Message, SiteFailure
from fedsuper.federation.progress import Silent
from fedsuper.federation.serving.request import PREDICT, SCORE, Request
from fedsuper.federation.serving.server_side import Serving
from fedsuper.inference.artifact import save_super_model
from fedsuper.inference.predict.predict_paths import predict_paths


@pytest.fixture(scope="module")
def super_model() -> SuperModel:
    """Two sites trained; a third hospital of the data root never did."""
    made = random_super_model(["site-1", "site-2"])
    made.manifest["history"] = [{"round": 1, "sites": {"site-1": {"val/global": 0.123456}}}]
    return made


@pytest.fixture(scope="module")
def folder(super_model: SuperModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("trained") / "supermodel"
    save_super_model(super_model, place)
    return place


def masks(folder: Path) -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in folder.glob("*.png")}
    assert found
    return found


def exchange_of(root: Path, run: Path) -> RecordingExchange:
    return RecordingExchange({site: serving_site(site, root, run) for site in find_sites(root)})


def ask(folder: Path, exchange: RecordingExchange, **request: object) -> tuple[dict, Serving]:
    serving = Serving(folder, Request.model_validate(request), exchange, Silent())
    return serving.run(), serving


@pytest.fixture(scope="module")
def named_root(tiny_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same hospitals with names that would tell who a patient is."""
    root = tmp_path_factory.mktemp("named") / "root"
    shutil.copytree(tiny_root, root)
    for path in [*root.glob("*/images/*"), *root.glob("*/labels/*")]:
        path.rename(path.with_name(f"kowalski-{path.name}"))
    for path in root.glob("*/cases.csv"):
        path.unlink()
    return root


@pytest.fixture(scope="module")
def served(folder: Path, named_root: Path, tmp_path_factory: pytest.TempPathFactory):
    """One prediction in mode select at three sites, one of which never trained."""
    run = tmp_path_factory.mktemp("served")
    exchange = exchange_of(named_root, run)
    told, serving = ask(folder, exchange, mode="select")
    return run, exchange, told, serving


def test_every_site_gets_the_masks_of_predict_bit_for_bit(served, folder: Path, named_root: Path, tmp_path) -> None:
    run, _, told, _ = served
    assert list(told["sites"]) == ["site-1", "site-2", "site-3"] and told["failed"] == {}
    for site in told["sites"]:
        predict_paths(folder, [named_root / site], tmp_path / site, "select")
        assert masks(run / site / "outbox") == masks(tmp_path / site)
        assert (run / site / "outbox" / "routing.csv").read_text() == (tmp_path / site / "routing.csv").read_text()
        assert (run / site / "outbox" / "preview.jpg").exists()


def test_nothing_of_a_patient_is_in_any_byte_that_goes_back(served, named_root: Path) -> None:
    run, exchange, *_ = served
    assert len(exchange.replies) == 6
    for task, site, reply in exchange.replies:
        assert isinstance(reply, Message) and reply.models == {}
        text = json.dumps(reply.info)
        assert "kowalski" not in text
        for row in (run / site / "outbox" / "routing.csv").read_text().splitlines()[1:]:
            assert not any(len(cell) > 6 and cell in text for cell in row.split(","))
        assert str(named_root) not in text and str(run) not in text
        keys = {"version", "missing"} if task == "offer" else {
            "images", "shares", "confidence", "review", "failed", "seconds", "dice", "labeled"}
        assert set(reply.info) == keys


def test_a_site_is_not_told_what_it_need_not_know(served) -> None:
    _, exchange, *_ = served
    assert all("0.123456" not in json.dumps(message.info) for _, _, message in exchange.sent)


def test_a_super_model_travels_once(served, folder: Path, named_root: Path) -> None:
    run, exchange, _, serving = served
    assert all(set(keys) == {"global", "selector", "personal/site-1", "personal/site-2"}
               for keys in serving.sent.values())
    again = exchange_of(named_root, run)
    _, second = ask(folder, again, mode="global")
    assert all(keys == [] for keys in second.sent.values())


def test_a_site_that_trained_holds_the_models_already(super_model, folder: Path, tiny_root: Path, tmp_path) -> None:
    state = tmp_path / "state"
    save_super_model(super_model, state / "supermodel")
    exchange = RecordingExchange({"site-1": serving_site("site-1", tiny_root, tmp_path, states=[state])})
    _, serving = ask(folder, exchange, mode="global")
    assert serving.sent == {"site-1": []}


def test_what_is_done_is_not_done_again(folder: Path, own_root: Path, tmp_path: Path) -> None:
    """Asked again after an interruption, or after more images came: only what is new is predicted."""
    exchange = RecordingExchange({"site-1": serving_site("site-1", own_root, tmp_path)})
    image = sorted((own_root / "site-1" / "images").iterdir())[0]
    image.rename(tmp_path / image.name)
    ask(folder, exchange, mode="select")
    outbox = tmp_path / "site-1" / "outbox"
    before = {path.name: path.stat().st_mtime_ns for path in outbox.glob("*.png")}
    (tmp_path / image.name).rename(image)
    told, _ = ask(folder, exchange, mode="select")
    after = {path.name: path.stat().st_mtime_ns for path in outbox.glob("*.png")}
    assert told["sites"]["site-1"]["images"] == 12 and len(before) == 11
    assert {name: after[name] for name in before} == before and after.keys() - before == {image.name}


def test_a_torn_file_at_the_site_is_sent_again(folder: Path, tiny_root: Path, tmp_path: Path) -> None:
    exchange = RecordingExchange({"site-1": serving_site("site-1", tiny_root, tmp_path)})
    ask(folder, exchange, mode="global")
    kept = next((tmp_path / "site-1" / "serving" / "supermodels").glob("*/selector.safetensors"))
    kept.write_bytes(kept.read_bytes()[:-1])
    _, serving = ask(folder, exchange, mode="global")
    assert serving.sent == {"site-1": ["selector"]}


def test_route_keeps_the_tuned_gates_at_the_hospital(folder: Path, tiny_root: Path, tmp_path: Path) -> None:
    exchange = RecordingExchange({"site-3": serving_site("site-3", tiny_root, tmp_path)})
    ask(folder, exchange, mode="route", keep_gates=True)
    gates = list((tmp_path / "site-3" / "serving").glob("gates-*.safetensors"))
    assert len(gates) == 1 and all(reply.models == {} for *_, reply in exchange.replies)
    predict_paths(folder, [tiny_root / "site-3"], tmp_path / "desk", "route", routing_file=gates[0])
    assert masks(tmp_path / "site-3" / "outbox") == masks(tmp_path / "desk")


def test_the_matrix_is_that_of_all_data_in_one_place(super_model, folder: Path, tiny_root: Path, tmp_path) -> None:
    told, _ = ask(folder, exchange_of(tiny_root, tmp_path), task=SCORE, split="all")
    expected = site_by_model(super_model, CaseStore(tiny_root), "all")
    for model, by_site in expected.items():
        assert {site: told["sites"][site]["models"][model]["mean"] for site in by_site} == by_site
    assert "select" in told["sites"]["site-1"]["models"]


def test_scores_of_fewer_than_five_patients_stay_at_home(folder: Path, tiny_root: Path, tmp_path: Path) -> None:
    told, _ = ask(folder, exchange_of(tiny_root, tmp_path), task=SCORE, split="test")
    assert all(answer["models"] is None and answer["images"] is None for answer in told["sites"].values())


# --- sites that fail, are late, or lie --------------------------------------------------------------------------------


@pytest.fixture
def own_root(tiny_root: Path, tmp_path: Path) -> Path:
    root = tmp_path / "root"
    shutil.copytree(tiny_root, root)
    return root


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
    done = threading.Event()

    def kill() -> None:
        while not done.is_set():
            for child in psutil.Process(os.getpid()).children():
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
