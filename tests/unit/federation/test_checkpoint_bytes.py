"""A checkpoint writes what is new and nothing else; whenever its writer dies, a whole round is left."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fedsuper.config import FederationConfig, Study
from fedsuper.core.state import Models, State
from fedsuper.data.task import Task
from fedsuper.errors import FedSuperError
from fedsuper.federation import checkpoints
from fedsuper.federation.checkpoints import BEST, MODELS, RoundWriter, load_latest, save_round
from fedsuper.methods.protocol.server import Server
from fedsuper.train.checkpoint import load_models, save_models

SITES = ["a", "b", "c"]


def new(*key: object) -> State:
    """A model of its own for every key."""
    return {"w": torch.randn(64, generator=torch.Generator().manual_seed(hash(key) % 2**31)), "n": torch.tensor(3)}


def server(study: Study, number: int, models: Models, best: Models) -> Server:
    task = Task("retina", 3, {"disc": (1,)})
    return Server(study, task, list(SITES), dict.fromkeys(SITES, 1), round=number, models=models, best_models=best)


def keys() -> list[str]:
    return ["global", *(f"personal/{site}" for site in SITES)]


def fresh(number: int) -> Models:
    return {key: new(number, key) for key in keys()}


def model_files(folder: Path) -> set[str]:
    return {path.stem for path in (folder / MODELS).iterdir()}


def named(folder: Path, number: int) -> dict[str, str]:
    return load_models(folder / f"round-{number:05d}.safetensors")[1][MODELS]


def loaded(folder: Path, study: Study, number: int | None = None) -> Server:
    found = load_latest(folder, study, number)
    assert found is not None
    return found


def equal(one: Models, other: Models) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key][name], other[key][name])
                                              for key in one for name in one[key])


def copied(models: Models) -> Models:
    """As `note_score` keeps what was the best: equal, in other tensors."""
    return {key: {name: tensor.clone() for name, tensor in state.items()} for key, state in models.items()}


def test_a_round_writes_its_new_models_and_no_best_one(tiny_study: Study, tmp_path: Path) -> None:
    best, last = copied(fresh(0)), fresh(0)
    with RoundWriter(tmp_path) as writer:
        counts = []
        for number in (1, 2, 3, 4):
            models = fresh(number)
            if number == 3:  # the best ones are those of the round before, which are on disk
                best = copied(fresh(2))
            if number == 4:  # one site was away, its model is what it was
                models["personal/b"] = last["personal/b"]
            writer.save(server(tiny_study, number, models, best))
            writer.wait()
            counts.append(writer.files.written)
            last = models
    one = (tmp_path / MODELS / f"{named(tmp_path, 1)['global']}.safetensors").stat().st_size
    assert [after - before for before, after in zip([0, *counts], counts, strict=False)] == [
        8 * one, 4 * one, 4 * one, 3 * one]
    for number in (1, 2, 3, 4):
        found = loaded(tmp_path, tiny_study, number)
        assert equal(found.best_models, fresh(0 if number < 3 else 2)) and found.round == number
    assert equal(found.models, last)


def test_a_writer_reads_no_round_that_it_has_written(tiny_study: Study, tmp_path: Path, monkeypatch) -> None:
    """Its history grows with every round."""
    read = []
    save_round(tmp_path, server(tiny_study, 1, fresh(1), {}))
    monkeypatch.setattr(checkpoints, "load_models", lambda path: read.append(path.name) or load_models(path))
    with RoundWriter(tmp_path) as writer:
        for number in (2, 3, 4):
            writer.save(server(tiny_study, number, fresh(number), {}))
    assert read == ["round-00001.safetensors"] and len(model_files(tmp_path)) == 16


def test_a_model_that_is_current_and_best_is_written_once(tiny_study: Study, tmp_path: Path) -> None:
    save_round(tmp_path, server(tiny_study, 1, fresh(1), copied(fresh(1))))
    assert len(model_files(tmp_path)) == 4
    assert equal(loaded(tmp_path, tiny_study).best_models, fresh(1))


def test_models_live_as_long_as_a_round_that_names_them(tiny_study: Study, tmp_path: Path) -> None:
    study = tiny_study.model_copy(update={"federation": FederationConfig(keep_rounds=2)})
    with RoundWriter(tmp_path) as writer:
        for number in range(1, 6):
            writer.save(server(study, number, fresh(number), {"global": new(0)} if number < 4 else {}))
            writer.wait()
            there = [int(path.stem[6:]) for path in tmp_path.glob("round-*")]
            assert model_files(tmp_path) == {name for each in there for name in named(tmp_path, each).values()}
    assert len(model_files(tmp_path)) == 8


def test_a_users_copy_of_a_round_keeps_its_models(tiny_study: Study, tmp_path: Path) -> None:
    study = tiny_study.model_copy(update={"federation": FederationConfig(keep_rounds=2)})
    save_round(tmp_path, server(study, 1, fresh(1), {}))
    copy = tmp_path / "round-before the change.safetensors"
    shutil.copy(tmp_path / "round-00001.safetensors", copy)
    for number in (2, 3, 4):
        save_round(tmp_path, server(study, number, fresh(number), {}))
    assert len(model_files(tmp_path)) == 12
    copy.rename(tmp_path / "round-00001.safetensors")
    assert equal(loaded(tmp_path, study, 1).models, fresh(1))


def test_a_round_of_a_former_version_is_gone_on_from(tiny_study: Study, tmp_path: Path) -> None:
    """It is one file that holds all models."""
    before = server(tiny_study, 1, fresh(1), fresh(0))
    flat = before.models | {f"{BEST}{key}": state for key, state in before.best_models.items()}
    save_models(tmp_path / "round-00001.safetensors", flat, before.values_to_json())
    found = loaded(tmp_path, tiny_study)
    assert equal(found.models, fresh(1)) and equal(found.best_models, fresh(0))
    save_round(tmp_path, server(tiny_study, 2, fresh(2), found.best_models))
    assert equal(loaded(tmp_path, tiny_study, 1).models, fresh(1))
    assert equal(loaded(tmp_path, tiny_study, 2).best_models, fresh(0))


@pytest.mark.parametrize("harm", [lambda path: path.write_bytes(path.read_bytes()[:50]), Path.unlink])
def test_a_torn_or_lost_model_costs_its_round_only(harm, tiny_study: Study, tmp_path: Path, capsys) -> None:
    for number in (1, 2):
        save_round(tmp_path, server(tiny_study, number, fresh(number), {}))
    harm(tmp_path / MODELS / f"{named(tmp_path, 2)['global']}.safetensors")
    assert loaded(tmp_path, tiny_study).round == 1
    assert "round-00002.safetensors: not whole" in capsys.readouterr().err
    save_round(tmp_path, server(tiny_study, 2, fresh(2), {}))  # the same bits again: the damaged file is not believed
    assert equal(loaded(tmp_path, tiny_study).models, fresh(2))
    harm(tmp_path / MODELS / f"{named(tmp_path, 1)['global']}.safetensors")
    with pytest.raises(FedSuperError, match="no whole checkpoint"):
        load_latest(tmp_path, tiny_study, 1)


def test_after_a_resume_nothing_that_is_there_is_written_again(tiny_study: Study, tmp_path: Path) -> None:
    save_round(tmp_path, server(tiny_study, 1, fresh(1), fresh(0)))
    found = loaded(tmp_path, tiny_study)
    found.round = 2
    with RoundWriter(tmp_path) as writer:
        writer.save(found)
        writer.wait()
        assert writer.files.written == 0


DYING = """
import os, signal, sys
import torch
from pathlib import Path
from fedsuper import files
from fedsuper.config import Study
from fedsuper.data.task import Task
from fedsuper.federation.checkpoints import save_round
from fedsuper.methods.protocol.server import Server

folder, steps, study = Path(sys.argv[1]), int(sys.argv[2]), Study.model_validate_json(sys.stdin.read())


def counted(call):
    def dying(*arguments, **named):
        global steps
        steps -= 1
        if steps < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **named)
    return dying


os.fsync, os.replace, os.unlink = counted(os.fsync), counted(os.replace), counted(os.unlink)
for number in range(1, 5):
    models = {key: {"w": torch.full((9,), float(number * 10 + index))} for index, key in enumerate("abc")}
    best = {"a": {"w": torch.full((9,), number // 2 * 100.0)}}
    save_round(folder, Server(study, Task("retina", 3, {"disc": (1,)}), ["a"], {"a": 1}, round=number, models=models,
                              best_models=best))
    print(number, flush=True)
"""


@pytest.mark.parametrize("steps", [7, 8, 9, 10, 18, 19, 25, 27, 28, 29])
def test_a_writer_killed_at_any_step_leaves_the_last_round_whole(steps: int, tiny_study: Study, tmp_path: Path) -> None:
    study = tiny_study.model_copy(update={"federation": FederationConfig(keep_rounds=2)})
    folder = tmp_path / "server"
    died = subprocess.run([sys.executable, "-c", DYING, str(folder), str(steps)], text=True, capture_output=True,
                          input=study.model_dump_json(exclude={"knobs"}), timeout=120)
    assert died.returncode == -signal.SIGKILL, died.stderr
    told = [int(line) for line in died.stdout.split()]
    found = load_latest(folder, study)
    number = found.round if found else 0
    assert number in (max(told, default=0), max(told, default=0) + 1)
    if found:
        assert found.models["b"]["w"][0] == number * 10 + 1 and found.best_models["a"]["w"][0] == number // 2 * 100
    save_round(folder, server(study, number + 1, fresh(number + 1), {}))
    there = [int(path.stem[6:]) for path in folder.glob("round-*")]
    assert model_files(folder) == {name for each in there for name in named(folder, each).values()}
