"""Models in files named by what is in them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedsuper.core.state import State
from fedsuper.errors import FedSuperError
from fedsuper.files import PARTIAL
from fedsuper.train import model_files
from fedsuper.train.model_files import ModelFiles


def state(value: float) -> State:
    return {"w": torch.full((3, 2), value), "count": torch.tensor(4), "none": torch.zeros(0)}


def same(one: State, other: State) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(one[name], other[name]) and one[name].dtype == other[name].dtype for name in one)


def test_models_come_back_with_their_bits(tmp_path: Path) -> None:
    shared = torch.arange(6.0)
    models = {"a/b": state(1.5), "half": {"w": torch.randn(5).bfloat16()}, "empty": {},
              "views": {"head": shared[:3], "tail": shared[3:], "across": shared.reshape(2, 3).T}}
    files = ModelFiles(tmp_path / "models")
    names = files.keep(models)
    assert all(same(ModelFiles(tmp_path / "models").read(names[key]), models[key]) for key in models)
    assert files.written == sum(path.stat().st_size for path in files.folder.iterdir())


def test_equal_models_are_one_file(tmp_path: Path) -> None:
    files = ModelFiles(tmp_path)
    names = files.keep({"current": state(1), "best": state(1), "other": state(2)})
    assert names["current"] == names["best"] != names["other"] and len(list(tmp_path.iterdir())) == 2


def test_names_and_shapes_and_types_are_part_of_a_model(tmp_path: Path) -> None:
    models = {"a": {"w": torch.zeros(4)}, "b": {"v": torch.zeros(4)}, "c": {"w": torch.zeros(2, 2)},
              "d": {"w": torch.zeros(4, dtype=torch.int32)}}
    assert len(set(ModelFiles(tmp_path).keep(models).values())) == 4


def test_a_state_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []
    digest = model_files.digest
    monkeypatch.setattr(model_files, "digest", lambda flat: hashed.append(1) or digest(flat))
    files, one, two = ModelFiles(tmp_path), state(1), state(2)
    first = files.keep({"one": one, "two": two})
    assert files.keep({"one": dict(one), "two": two}) == first and len(hashed) == 2
    files.keep({"one": state(1), "two": two})
    assert len(hashed) == 3


def test_a_state_that_was_changed_in_place_is_another_one(tmp_path: Path) -> None:
    """Nobody is meant to do this to a round's models; if somebody does, no checkpoint may lie about it."""
    files, one = ModelFiles(tmp_path), state(1)
    before = files.keep({"one": one})["one"]
    one["w"].add_(1)
    after = files.keep({"one": one})["one"]
    assert after != before and same(files.read(after), one) and same(files.read(before), state(1))
    with torch.inference_mode():
        other = {"w": torch.zeros(2)}
        first = files.keep({"one": other})["one"]
        other["w"].add_(1)
        assert files.keep({"one": other})["one"] != first


def test_an_unchanged_state_is_not_held_in_memory(tmp_path: Path) -> None:
    files, one = ModelFiles(tmp_path), state(1)
    files.keep({"one": one})
    (unchanged, _), = files._last.values()
    ref, _ = unchanged._tensors["w"]
    assert ref() is one["w"]
    del one
    assert ref() is None


@pytest.mark.parametrize("harm", [lambda data: data[:40], lambda data: data[:-1] + b"!", lambda data: b""])
def test_a_damaged_file_is_an_error_to_read_and_replaced_when_written(harm, tmp_path: Path) -> None:
    name = ModelFiles(tmp_path).keep({"one": {"w": torch.ones(3)}})["one"]
    path, = tmp_path.iterdir()
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(FedSuperError, match="torn|digest"):
        ModelFiles(tmp_path).read(name)
    files = ModelFiles(tmp_path)
    assert files.keep({"one": {"w": torch.ones(3)}})["one"] == name and files.written
    assert torch.equal(files.read(name)["w"], torch.ones(3))
    path.unlink()
    files.keep({"one": {"w": torch.ones(3)}})
    assert path.exists()


def test_a_whole_file_of_another_process_is_believed_after_it_was_read(tmp_path: Path) -> None:
    ModelFiles(tmp_path).keep({"one": state(1)})
    files = ModelFiles(tmp_path)
    files.keep({"one": state(1)})
    assert files.written == 0


def test_what_nobody_names_goes_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    files = ModelFiles(tmp_path)
    names = files.keep({"one": state(1), "two": state(2)})
    (tmp_path / "mine.safetensors").write_bytes(b"mine")
    (tmp_path / f"{PARTIAL}0123.safetensors").write_bytes(b"torn")
    files.drop_all_but({names["two"]})
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([f"{names['two']}.safetensors",
                                                                       "mine.safetensors"])
    files.keep({"one": state(1)})
    assert same(files.read(names["one"]), state(1))
    ModelFiles(tmp_path / "nowhere").drop_all_but([])
