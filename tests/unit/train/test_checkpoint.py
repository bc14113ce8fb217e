"""Checkpoints come back bit for bit, whole or not at all, and say what is wrong with a bad one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsuper.core.state import Models
from fedsuper.errors import FedSuperError
from fedsuper.train.checkpoint import digest, flatten, load_models, save_models, unflatten

MODELS: Models = {
    "global": {"w": torch.randn(3, 4), "n": torch.tensor(7), "half": torch.randn(5).bfloat16()},
    "personal/A": {"w": torch.full((2,), float("nan")), "empty": torch.zeros(0, 3)},
    "nothing": {},
}


def same(one: Models, other: Models) -> bool:
    return list(one) == list(other) and digest(flatten(one)) == digest(flatten(other))


def test_models_and_values_come_back(tmp_path: Path) -> None:
    save_models(tmp_path / "c", MODELS, {"round": 3, "best": {"global": 0.5}})
    models, values = load_models(tmp_path / "c")
    assert same(models, MODELS) and values == {"round": 3, "best": {"global": 0.5}}


def test_a_long_history_takes_little_room(tmp_path: Path) -> None:
    history = [{"round": number, "sites": {"a": {"val/global": number / 7}}, "missing": []} for number in range(500)]
    save_models(tmp_path / "short", {}, {"history": history[:1]})
    save_models(tmp_path / "long", {}, {"history": history})
    assert load_models(tmp_path / "long")[1] == {"history": history}
    assert b"val/global" in (tmp_path / "short").read_bytes(), "what is short can be read"
    assert (tmp_path / "long").stat().st_size < len(json.dumps(history)) / 3
    torn = (tmp_path / "long").read_bytes().replace(b"zlib:c", b"zlib:d")
    (tmp_path / "long").write_bytes(torn)
    with pytest.raises(FedSuperError, match="torn or not a FedSuper checkpoint"):
        load_models(tmp_path / "long")


def test_tensors_that_share_memory_or_are_views_are_kept(tmp_path: Path) -> None:
    base = torch.arange(12.0).view(3, 4)
    models: Models = {"a": {"whole": base, "turned": base.T, "part": base[1:, ::2]}}
    save_models(tmp_path / "c", models)
    assert same(load_models(tmp_path / "c")[0], models)


ROLES = st.text("abc/", min_size=1, max_size=6).filter(lambda role: not role.endswith("/"))
ENTRIES = st.text("xyz.|", min_size=1, max_size=6)


@settings(max_examples=50, deadline=None)
@given(names=st.dictionaries(ROLES, st.sets(ENTRIES, min_size=1), max_size=4))
def test_flat_names_lead_back(names: dict[str, set[str]]) -> None:
    models: Models = {role: {name: torch.rand(1) for name in sorted(entries)} for role, entries in names.items()}
    back = unflatten(flatten(models))
    assert {role: set(state) for role, state in back.items()} == names
    assert digest(flatten(back)) == digest(flatten(models))


def test_every_change_changes_the_digest() -> None:
    flat = {"a/w": torch.zeros(2, 3)}
    others = [{"a/v": torch.zeros(2, 3)}, {"a/w": torch.zeros(3, 2)}, {"a/w": torch.zeros(2, 3, dtype=torch.int32)},
              {"a/w": torch.zeros(2, 3).index_fill(0, torch.tensor(0), 1e-30)}]
    assert len({digest(one) for one in [flat, *others]}) == 5
    assert digest({"a": torch.ones(1), "b": torch.zeros(1)}) == digest({"b": torch.zeros(1), "a": torch.ones(1)})


def test_a_torn_or_altered_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "c"
    save_models(path, MODELS)
    whole = path.read_bytes()
    altered = bytearray(whole)
    altered[-1] ^= 1
    for content in (b"", whole[: len(whole) // 2], whole[:-3], bytes(altered), b"\x00" * 64):
        path.write_bytes(content)
        with pytest.raises(FedSuperError) as caught:
            load_models(path)
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(FedSuperError, match="no such checkpoint"):
        load_models(tmp_path / "absent")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "c"
    save_models(path, MODELS, {"round": 1})
    with pytest.raises(ValueError):
        save_models(path, MODELS, {"round": float("nan")})
    assert load_models(path)[1] == {"round": 1} and list(tmp_path.iterdir()) == [path]
