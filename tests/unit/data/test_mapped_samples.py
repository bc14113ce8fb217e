"""Samples that rest in files are the samples in memory, bit for bit, in training too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from data_roots import prostate_root, retina_root

from fedsuper.bench import sample_speed
from fedsuper.config import Study
from fedsuper.config.reading import change_study
from fedsuper.data import dataset
from fedsuper.data.dataset import load_samples
from fedsuper.data.layout import list_items
from fedsuper.data.prepared import mapped
from fedsuper.data.prepared.mapped import MappedSamples, side_by_side
from fedsuper.data.preprocess import Preprocess
from fedsuper.data.task import read_task
from fedsuper.engines.in_process import run_local
from fedsuper.errors import FedSuperError
from fedsuper.federation.progress import Silent
from fedsuper.train.checkpoint import digest


@pytest.mark.parametrize("make", [retina_root, prostate_root])
def test_a_file_holds_what_memory_would(make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make(tmp_path / "root", sites=("a",))
    folder, task, preprocess = root / "a", read_task(root), Preprocess(image_size=16)
    items = list_items(folder, require_labels=True)
    before = os.umask(0o027)
    try:
        found = load_samples(folder, items, task, preprocess, rest_in=tmp_path / "rest")
    finally:
        os.umask(before)
    there = load_samples(folder, items, task, preprocess)
    assert isinstance(found, MappedSamples) and (found.names, found.cases) == (there.names, there.cases)
    assert torch.equal(found.images, there.images) and torch.equal(found.masks, there.masks)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "rest").rglob("*") if path.is_file()} == {0o640}
    monkeypatch.setattr(dataset, "_prepare", lambda *given: pytest.fail("prepared twice"))
    monkeypatch.setattr(mapped, "HELD", 1)  # every batch gives its pages back
    again = load_samples(folder, items, task, preprocess, rest_in=tmp_path / "rest")
    index = torch.tensor([len(again) - 1, 0])
    for _ in range(2):
        assert all(torch.equal(one, other) for one, other in zip(again.batch(index), there.batch(index), strict=True))
    assert torch.equal(torch.cat([images.clone() for images, _ in again.parts(2)]), there.images)


def test_what_breaks_off_is_not_taken_for_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = retina_root(tmp_path / "root", sites=("a",))
    folder, task, preprocess = root / "a", read_task(root), Preprocess(image_size=16)
    items = list_items(folder, require_labels=True)
    really, calls = dataset._prepare, []

    def breaks(*given: object) -> object:
        calls.append(given)
        if len(calls) == 3:
            raise FedSuperError("the disk is gone")
        return really(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(dataset, "_prepare", breaks)
    with pytest.raises(FedSuperError, match="the disk is gone"):
        load_samples(folder, items, task, preprocess, rest_in=tmp_path / "rest")
    assert not [path for path in (tmp_path / "rest").rglob("*") if path.is_file()]
    assert len(load_samples(folder, items, task, preprocess, rest_in=tmp_path / "rest")) == len(items)


def test_order_is_kept_and_few_are_ahead() -> None:
    begun: list[int] = []
    results = side_by_side(lambda number: begun.append(number) or number, list(range(100)), "")
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    assert len(begun) < 50, "results are not piled up"
    assert list(results) == list(range(3, 100))


@pytest.mark.slow
def test_training_from_files_gives_the_same_bits(tiny_root: Path, tiny_study: Study, tmp_path: Path) -> None:
    study = change_study(tiny_study, ["rounds=1"])
    here = run_local(study, tiny_root, tmp_path / "memory", Silent())
    there = run_local(change_study(study, ["compute.samples=disk"]), tiny_root, tmp_path / "disk", Silent())
    assert here.global_model and there.global_model
    assert digest(here.global_model) == digest(there.global_model)
    assert {site: digest(state) for site, state in here.personal.items()} == {
        site: digest(state) for site, state in there.personal.items()}


def test_the_benchmark_measures_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SLICES": 40, "SIDE": 32, "BATCHES": 1, "REPEATS": 1}.items():
        monkeypatch.setattr(sample_speed, name, value)
    result = sample_speed.run(tmp_path)
    assert result["slices"] == 40 and result["of_the_rate_in_memory"] > 0 and len(result["promises"]) == 2
    assert not list(tmp_path.rglob("*.float32"))
