"""The server's checkpoints: one file per round, the last two kept, a torn one passed over."""

from __future__ import annotations

import sys
from pathlib import Path

from fedsuper.config import Study, parse_study
from fedsuper.data.task import Task
from fedsuper.errors import FedSuperError
from fedsuper.methods.server import Server
from fedsuper.train.checkpoint import load_models, save_models

BEST = "best:"
KEPT = 2
# What may differ between the run that wrote a checkpoint and the one that goes on from it.
FREE_KEYS = ("rounds", "patience", "max_rounds", "federation", "routing")


def save_round(folder: Path, server: Server) -> None:
    """Write the state after a round, then drop older files, and younger ones that an abandoned run left behind."""
    models = server.models | {f"{BEST}{key}": state for key, state in server.best_models.items()}
    newest = _path(folder, server.round)
    save_models(newest, models, server.values_to_json())
    kept = [path for path in _checkpoints(folder) if path <= newest][-KEPT:]
    for path in _checkpoints(folder):
        if path not in kept:
            path.unlink(missing_ok=True)


def load_latest(folder: Path, study: Study) -> Server:
    """The newest whole checkpoint, checked against the study that wants to go on from it."""
    paths = _checkpoints(folder)
    if not paths:
        raise FedSuperError(f"{folder}: no checkpoint to resume from; run without --resume")
    problem = None
    for path in reversed(paths):
        try:
            models, values = load_models(path)
        except FedSuperError as error:
            problem = error
            print(f"warning: {error}", file=sys.stderr)
            continue
        return _restore(path, models, values, study)
    raise FedSuperError(f"{folder}: no whole checkpoint to resume from ({problem}); run without --resume")


def _restore(path: Path, models: dict, values: dict, study: Study) -> Server:
    before, now = parse_study(values["study"], str(path)).to_json(), study.to_json()
    changed = sorted(
        key for key in before.keys() | now.keys() if key not in FREE_KEYS and before.get(key) != now.get(key)
    )
    if changed:
        raise FedSuperError(
            f"{path}: was written by another study (differs in {', '.join(changed)}); "
            "resume with the same study, or start a new run"
        )
    return Server(
        study=study,
        task=Task.from_json(values["task"]),
        sites=values["sites"],
        samples=values["samples"],
        round=values["round"],
        models={key: state for key, state in models.items() if not key.startswith(BEST)},
        best_models={key.removeprefix(BEST): state for key, state in models.items() if key.startswith(BEST)},
        best=values["best"],
        scores=values["scores"],
        history=values["history"],
        accepted=values["accepted"],
        values=values["values"],
    )


def _path(folder: Path, number: int) -> Path:
    return Path(folder) / f"round-{number:05d}.safetensors"


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(Path(folder).glob("round-*.safetensors"))
