"""dataset.json in and out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from data_roots import PROSTATE, RETINA

from fedsuper.data.problems import DataProblem
from fedsuper.data.task import Task, read_task


@pytest.mark.parametrize("value", [RETINA, PROSTATE])
def test_round_trip(tmp_path: Path, value: dict) -> None:
    (tmp_path / "dataset.json").write_text(json.dumps(value))
    task = read_task(tmp_path)
    assert task.to_json() == value
    assert Task.from_json(task.to_json()) == task


def test_the_order_of_regions_is_the_order_of_the_file() -> None:
    regions = {"cup": [2], "disc": [2, 1]}
    task = Task.from_json({"task": "t", "channels": 3, "regions": regions})
    assert list(task.regions) == ["cup", "disc"]
    assert task.label_values == (1, 2)


def test_a_byte_order_mark_and_further_keys_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "dataset.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(RETINA | {"license": "CC BY"}).encode())
    assert read_task(tmp_path).name == "retina"


@pytest.mark.parametrize("regions", [{"a": [1, 1]}, {"a": 1}, {"a": [1.0]}, {"a": [True]}, {"": [1]}, {" a": [1]}, []])
def test_faulty_regions_are_named(regions: object) -> None:
    with pytest.raises(DataProblem, match="dataset.json: "):
        Task.from_json({"task": "t", "channels": 1, "regions": regions})
