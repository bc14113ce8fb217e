"""The server's checkpoints on disk."""

from __future__ import annotations

from pathlib import Path

import torch

from fedsuper.config import Study
from fedsuper.data.task import Task
from fedsuper.engines.server_files import load_latest, save_round
from fedsuper.methods.server import Server


def server(study: Study, number: int) -> Server:
    task = Task("retina", 3, {"disc": (1,)})
    return Server(study, task, ["a"], {"a": 1}, round=number, models={"global": {"w": torch.full((2,), float(number))}})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_last_two_rounds_are_kept(tiny_study: Study, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        save_round(tmp_path, server(tiny_study, number))
    assert names(tmp_path) == ["round-00002.safetensors", "round-00003.safetensors"]
    assert load_latest(tmp_path, tiny_study).round == 3


def test_a_new_run_in_an_old_folder_does_not_resume_the_old_one(tiny_study: Study, tmp_path: Path) -> None:
    """Sorting by age alone would keep rounds 8 and 9 of the abandoned run and drop the new ones."""
    for number in (8, 9):
        save_round(tmp_path, server(tiny_study.with_seed(7), number))
    save_round(tmp_path, server(tiny_study, 1))
    assert names(tmp_path) == ["round-00001.safetensors"]
    assert load_latest(tmp_path, tiny_study).round == 1
