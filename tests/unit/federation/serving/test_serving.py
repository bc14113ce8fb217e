"""A super model at work at the sites: the masks of `fedsuper predict`, and nothing that leaves but sums."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from serving_requests import ask, exchange_of, masks
from serving_sites import RecordingExchange, serving_site

from fedsuper.evaluation.cases import CaseStore
from fedsuper.evaluation.evaluate import site_by_model
from fedsuper.federation.messages import Message
from fedsuper.federation.serving.request import SCORE
from fedsuper.inference.artifact import save_super_model
from fedsuper.inference.predict.predict_paths import predict_paths


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


def test_a_site_may_withhold_more_than_five(folder: Path, tiny_root: Path, tmp_path: Path) -> None:
    wary = {site: serving_site(site, tiny_root, tmp_path, minimum=least) for site, least in
            (("site-1", 12), ("site-2", 13))}
    for request in ({"mode": "global"}, {"task": SCORE, "split": "all"}):
        told, _ = ask(folder, RecordingExchange(wary), **request)
        assert told["sites"]["site-1"]["images"] == 12 and told["sites"]["site-2"]["images"] is None
