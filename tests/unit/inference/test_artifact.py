"""The super model's folder: what goes in comes out, crashes leave a sound folder, bad folders are told in one line."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from artifact_files import edit, same, weights_in
from super_models import random_super_model

from fedsuper.core.supermodel import SuperModel
from fedsuper.errors import FedSuperError
from fedsuper.inference import artifact
from fedsuper.inference.artifact import load_super_model, save_super_model
from fedsuper.inference.opening import open_predictor


@pytest.fixture
def model() -> SuperModel:
    return random_super_model(["A", "B"])


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def test_round_trip(model: SuperModel, tmp_path: Path) -> None:
    model.extras["rotation"] = {"w": torch.arange(3.0)}
    save_super_model(model, tmp_path / "sm")
    loaded = load_super_model(tmp_path / "sm")
    assert same(model, loaded)
    assert loaded.manifest == model.manifest | {"mode": "select", "sites": ["A", "B"]}
    assert sorted(weights_in(tmp_path / "sm")) == [
        "extra-rotation.safetensors", "global.safetensors", "personal-A.safetensors", "personal-B.safetensors",
        "selector.safetensors",
    ]


def test_integer_and_half_entries_keep_their_type(model: SuperModel, tmp_path: Path) -> None:
    assert model.global_model is not None
    model.global_model["count"] = torch.tensor(5)
    model.global_model["half"] = torch.ones(2, dtype=torch.float16)
    save_super_model(model, tmp_path)
    loaded = load_super_model(tmp_path).global_model
    assert loaded is not None and loaded["count"].dtype == torch.int64 and loaded["half"].dtype == torch.float16


@pytest.mark.parametrize("missing", ["global_model", "selector", "personal"])
def test_any_part_may_be_absent(model: SuperModel, tmp_path: Path, missing: str) -> None:
    setattr(model, missing, {} if missing == "personal" else None)
    save_super_model(model, tmp_path)
    loaded = load_super_model(tmp_path)
    assert not getattr(loaded, missing) and len(loaded.experts()) == len(model.experts())


def test_equal_weights_give_equal_bytes(model: SuperModel, tmp_path: Path) -> None:
    save_super_model(model, tmp_path / "one")
    model.manifest["provenance"] = {"created": "another day"}
    assert model.global_model is not None
    model.global_model = dict(reversed(model.global_model.items()))
    save_super_model(model, tmp_path / "two")
    assert weights_in(tmp_path / "one") == weights_in(tmp_path / "two")


def test_site_names_of_any_kind(tmp_path: Path) -> None:
    sites = ["St. Mary's / east", "St. Mary's : east", "a", "A", "../up", "病院"]
    model = random_super_model(sites)
    save_super_model(model, tmp_path / "sm")
    assert same(model, load_super_model(tmp_path / "sm"))
    names = list(weights_in(tmp_path / "sm"))
    assert len({name.lower() for name in names}) == len(sites) + 2
    assert all(name.isascii() and "/" not in name for name in names)
    assert [path.name for path in tmp_path.iterdir()] == ["sm"]


def test_a_metric_that_is_no_number_becomes_null(model: SuperModel, tmp_path: Path) -> None:
    model.manifest["metrics"] = {"loss": [float("nan"), 1.0], "other": float("inf")}
    save_super_model(model, tmp_path)
    assert load_super_model(tmp_path).manifest["metrics"] == {"loss": [None, 1.0], "other": None}


def test_rewriting_replaces_and_tidies(model: SuperModel, tmp_path: Path) -> None:
    save_super_model(model, tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    newer = random_super_model(["A", "B"])
    newer.personal["A"]["model.0.conv.bias"] = newer.personal["A"].pop(next(iter(newer.personal["A"]))) + 1
    del newer.personal["B"]
    save_super_model(newer, tmp_path)
    assert same(newer, load_super_model(tmp_path))
    assert len(weights_in(tmp_path)) == 3 and (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("survived", range(5))
def test_a_crash_leaves_the_old_or_the_new(
    model: SuperModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survived: int
) -> None:
    save_super_model(model, tmp_path)
    newer = random_super_model(["A", "B"])
    for state in (newer.global_model, newer.selector, *newer.personal.values()):
        assert state is not None
        for name in state:
            state[name] = state[name] + 1
    writes = 0

    def dying(original: Callable) -> Callable:
        def write(*arguments: object) -> None:
            nonlocal writes
            if writes == survived:
                raise KeyboardInterrupt
            writes += 1
            original(*arguments)

        return write

    for name in ("atomic_write_bytes", "atomic_write_json"):
        monkeypatch.setattr(artifact, name, dying(getattr(artifact, name)))
    with pytest.raises(KeyboardInterrupt):
        save_super_model(newer, tmp_path)
    monkeypatch.undo()
    assert same(model, load_super_model(tmp_path))
    save_super_model(newer, tmp_path)
    assert same(newer, load_super_model(tmp_path))


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing manifest": (lambda f: (f / "supermodel.json").unlink(), "holds no supermodel.json"),
    "not JSON": (lambda f: (f / "supermodel.json").write_text("{"), "is not JSON"),
    "binary manifest": (lambda f: (f / "supermodel.json").write_bytes(b"\xff\xfe\x00"), "is not JSON"),
    "deep JSON": (lambda f: (f / "supermodel.json").write_text("[" * 100_000), "is not JSON"),
    "a list": (lambda f: (f / "supermodel.json").write_text("[]"), "JSON list"),
    "newer format": (lambda f: edit(f, lambda m: m.update(format=2)), "format 2, this FedSuper reads up to 1"),
    "no format": (lambda f: edit(f, lambda m: m.pop("format")), "no format version"),
    "format true": (lambda f: edit(f, lambda m: m.update(format=True)), "no format version"),
    "sites repeated": (lambda f: edit(f, lambda m: m.update(sites=["A", "A"])), "'sites'"),
    "other sites": (lambda f: edit(f, lambda m: m.update(sites=["A", "X"])), "names the model 'personal/B'"),
    "no mode": (lambda f: edit(f, lambda m: m.pop("mode")), "'mode'"),
    "no files": (lambda f: edit(f, lambda m: m.update(files={})), "names no weights"),
    "entry is text": (lambda f: edit(f, lambda m: m["files"].update({"global": "x"})), "points to None"),
    "no digest": (lambda f: edit(f, lambda m: m["files"]["global"].pop("sha256")), "no SHA-256"),
    "sites in another order": (lambda f: edit(f, lambda m: m["sites"].reverse()), "names other hospitals"),
    "a site called global": (lambda f: edit(f, lambda m: m.update(sites=["A", "B", "global"])), "cannot be called"),
    "a site of two lines": (lambda f: edit(f, lambda m: m.update(sites=["A", "B", "x\ny"])), "cannot be called"),
    "a site without a name": (lambda f: edit(f, lambda m: m.update(sites=["A", "B", " "])), "cannot be called"),
    "gamma two": (lambda f: edit(f, lambda m: m.update(gamma=2)), "'gamma' must be a number from 0 to 1, got 2"),
    "gamma abc": (lambda f: edit(f, lambda m: m.update(gamma="abc")), "got 'abc'"),
    "gamma true": (lambda f: edit(f, lambda m: m.update(gamma=True)), "got True"),
    "gamma NaN": (lambda f: edit(f, lambda m: m.update(gamma=float("nan"))), "got nan"),
    "missing weights": (lambda f: (f / "global.safetensors").unlink(), "weights of 'global' are missing"),
    "torn weights": (lambda f: tear(f / "global.safetensors"), "torn or altered"),
    "altered weights": (lambda f: (f / "personal-A.safetensors").write_bytes(b"x"), "torn or altered"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_folders_are_told_in_one_line(model: SuperModel, tmp_path: Path, kind: str) -> None:
    save_super_model(model, tmp_path)
    breaking, expected = BROKEN[kind]
    breaking(tmp_path)
    with pytest.raises(FedSuperError, match=expected) as caught:
        load_super_model(tmp_path)
    assert "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)
    with pytest.raises(FedSuperError, match=expected):
        open_predictor(tmp_path)


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/x.safetensors", "a\\b.safetensors", "x.pt", "", ".."])
def test_hostile_file_names_are_refused(model: SuperModel, tmp_path: Path, name: str) -> None:
    save_super_model(model, tmp_path / "sm")
    (tmp_path / "secret.safetensors").write_bytes((tmp_path / "sm" / "global.safetensors").read_bytes())
    edit(tmp_path / "sm", lambda m: m["files"]["global"].update(name=name))
    with pytest.raises(FedSuperError, match="do not use this super model"):
        load_super_model(tmp_path / "sm")


def test_weights_that_are_no_safetensors(model: SuperModel, tmp_path: Path) -> None:
    save_super_model(model, tmp_path)
    (tmp_path / "global.safetensors").write_bytes(b"not weights")
    edit(tmp_path, lambda m: m["files"]["global"].update(sha256=hashlib.sha256(b"not weights").hexdigest()), True)
    with pytest.raises(FedSuperError, match="not a safetensors file"):
        load_super_model(tmp_path)


def test_no_folder_and_a_file_instead(tmp_path: Path) -> None:
    with pytest.raises(FedSuperError, match="no such folder"):
        load_super_model(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(FedSuperError, match="is a file"):
        load_super_model(tmp_path / "file")


def test_a_hostile_folder_is_not_tidied_when_rewritten(model: SuperModel, tmp_path: Path) -> None:
    """Files outside the folder stay, whatever the old manifest claims to own."""
    save_super_model(model, tmp_path / "sm")
    victim = tmp_path / "victim.safetensors"
    victim.write_text("keep")
    edit(tmp_path / "sm", lambda m: m["files"]["global"].update(name="../victim.safetensors"))
    save_super_model(model, tmp_path / "sm")
    assert victim.read_text() == "keep" and same(model, load_super_model(tmp_path / "sm"))
