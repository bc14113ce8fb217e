"""The server's checkpoints: a file per round and the models it names, the last few kept, a torn one passed over.

Models lie beside the rounds in files of their own, named by what is in them, so a round writes only what is new: a best
model that stayed the best, a site that was away, a model that has become the best and was the current one the round
before are on disk already. The round's own file names the models it is made of and is written last: it is there, with
all of them, or not at all. A round that a former version wrote holds its models itself.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.core.state import Models
from fedsuper.data.task import Task
from fedsuper.errors import FedSuperError
from fedsuper.files import forget_unfinished, with_room
from fedsuper.methods.protocol.server import TRAINING, Server
from fedsuper.train.checkpoint import load_models, save_models
from fedsuper.train.model_files import ModelFiles

MODELS = "models"  # the folder of the models, and the value that names those of a round
BEST, CARRY = "best:", "carry:"  # before the keys of models that are not those of the next round
Version = tuple[str, int, int]
# What may differ between the run that wrote a checkpoint and the one that goes on from it.
FREE_KEYS = ("rounds", "patience", "max_rounds", "federation", "routing")


@dataclass(frozen=True)
class Resume:
    """Go on with a run: from its last complete round, or from `from_round`, and without the sites that left for good.
    """

    from_round: int | None = None
    without: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: bool | dict[str, Any] | Resume) -> Resume | None:
        """From `True`, from what `to_json` made of it, or from itself; None for a new run."""
        if isinstance(value, dict):
            return cls(value.get("from_round"), tuple(value.get("without", ())))
        return value if isinstance(value, Resume) else cls() if value else None

    def to_json(self) -> bool | dict[str, Any]:
        """As a job names it."""
        told = {"from_round": self.from_round, "without": list(self.without)}
        return {key: value for key, value in told.items() if value not in (None, [])} or True


class RoundWriter:
    """Writes checkpoints while the sites train the next round; whoever leaves it, by an error too, has the last one.

    A round's models are never changed afterwards, only replaced, so the writer needs no copy of them. On a full disk
    it waits for `room` seconds, the study one round ahead at most: nothing is torn, and nothing that is needed is gone.
    """

    def __init__(self, folder: Path, room: float = 0.0, note: Callable[[str], None] = print) -> None:
        self.folder = Path(folder)
        self.room = room
        self.note = note
        self.files = ModelFiles(self.folder / MODELS)
        self._named: dict[Version, set[str]] = {}  # the models of every file: a history is long and read once at most
        self._leaving = threading.Event()
        self._hand = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[None] | None = None

    def __enter__(self) -> RoundWriter:
        forget_unfinished(self.files.folder)
        return self

    def __exit__(self, *problem: object) -> None:
        if problem[0] is not None:
            self._leaving.set()
        self._hand.shutdown()
        if problem[0] is None:
            self.wait()

    def save(self, server: Server) -> None:
        """Begin to write the state after a round; a problem with the one before is told now."""
        self.wait()
        models = server.models | {f"{BEST}{key}": state for key, state in server.best_models.items()}
        models |= {f"{CARRY}{key}": state for key, state in server.carry.items()}
        values = json.dumps(server.values_to_json())  # a copy, ten times as quick as one object at a time
        keep = server.study.federation.keep_rounds
        write = partial(self._write, _path(self.folder, server.round), models, values, keep)
        self._writing = self._hand.submit(with_room, write, self.room, self.note, self._leaving)

    def wait(self) -> None:
        """Until what was begun is on disk."""
        if self._writing is not None:
            self._writing.result()

    def _write(self, newest: Path, models: Models, values: str, keep: int) -> None:
        """Write a round, then drop older ones, younger ones that an abandoned run left behind, and their models."""
        try:
            names = self.files.keep(models)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(newest)) from error
        save_models(newest, {}, json.loads(values) | {MODELS: names})
        self._named[_version(newest)] = set(names.values())
        kept = [path for path in _checkpoints(self.folder) if path <= newest][-keep:]
        for path in _checkpoints(self.folder):
            if path not in kept:
                path.unlink(missing_ok=True)
        self.files.drop_all_but(self._all_named())

    def _all_named(self) -> set[str]:
        """The models of all rounds in the folder, of a copy that somebody made under a name of their own too."""
        named = {}
        for path in self.folder.glob("[!.]*.safetensors"):
            with contextlib.suppress(FileNotFoundError):  # somebody has just taken their copy away
                version = _version(path)
                named[version] = self._named[version] if version in self._named else _models_of(path)
        self._named = named
        return set().union(*named.values())


def save_round(folder: Path, server: Server) -> None:
    """Write the state after a round, and wait for it."""
    with RoundWriter(folder) as writer:
        writer.save(server)


def _version(path: Path) -> Version:
    """What changes when somebody writes another file under the same name."""
    found = path.stat()
    return path.name, found.st_mtime_ns, found.st_size


def _models_of(path: Path) -> set[str]:
    """The models that a round names; nobody can go on from one that cannot be read."""
    try:
        return set(load_models(path)[1].get(MODELS, {}).values())
    except FedSuperError:
        return set()


def has_checkpoint(folder: Path) -> bool:
    """Whether a run has got so far that it can be resumed."""
    return bool(_checkpoints(folder))


def load_latest(folder: Path, study: Study, from_round: int | None = None) -> Server | None:
    """The newest whole checkpoint, or that of `from_round`, checked against the study that wants to go on from it.

    None where a run was ended before its first checkpoint: there is nothing to lose, it starts anew.
    """
    paths = _checkpoints(folder)
    if from_round is not None:
        paths = [path for path in paths if path == _path(folder, from_round)]
        if not paths:
            there = ", ".join(str(int(path.stem.partition("-")[2])) for path in _checkpoints(folder)) or "none"
            raise FedSuperError(f"--from-round {from_round}: no checkpoint of this round (there: {there}); "
                                "federation.keep_rounds says how many are kept")
    if not paths:
        return None
    problem = None
    for path in reversed(paths):
        try:
            models, values = _read(path)
        except FedSuperError as error:
            problem = error
            print(f"warning: {error}", file=sys.stderr)
            continue
        return _restore(path, models, values, study)
    raise FedSuperError(f"{folder}: no whole checkpoint to resume from ({problem}); run without --resume")


def _read(path: Path) -> tuple[Models, dict[str, Any]]:
    """A round with its models; one that lacks any of them is not whole."""
    models, values = load_models(path)
    files = ModelFiles(path.parent / MODELS)
    try:
        return models | {key: files.read(name) for key, name in values.pop(MODELS, {}).items()}, values
    except FedSuperError as error:
        raise FedSuperError(f"{path}: not whole ({error})") from None


def _restore(path: Path, models: Models, values: dict[str, Any], study: Study) -> Server:
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
        phase=values.get("phase", TRAINING),
        phase_start=values.get("phase_start", 0),
        models={key: state for key, state in models.items() if not key.startswith((BEST, CARRY))},
        best_models=_under(BEST, models),
        carry=_under(CARRY, models),
        best=values["best"],
        scores=values["scores"],
        history=values["history"],
        accepted=values["accepted"],
        values=values["values"],
    )


def _under(prefix: str, models: Models) -> Models:
    return {key.removeprefix(prefix): state for key, state in models.items() if key.startswith(prefix)}


def _path(folder: Path, number: int) -> Path:
    return Path(folder) / f"round-{number:05d}.safetensors"


def _checkpoints(folder: Path) -> list[Path]:
    """In the order of rounds; a copy somebody made under a name of their own is not ours to read or to drop."""
    return sorted(path for path in Path(folder).glob("round-*.safetensors") if path.stem[6:].isdecimal())
