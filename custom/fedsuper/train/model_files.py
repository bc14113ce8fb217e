"""Models in files of their own, named by what is in them: a model that is on disk already is not written again.

A state that is the same object as at the last writing, unchanged, is known without a look at its bytes; any other is
hashed once, and its digest is the name of its file. A file is believed to be whole if this process has written it or
read it through: one that a broken run left behind, or that was damaged meanwhile, is replaced.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Collection
from pathlib import Path

import torch

from fedsuper.core.state import Models, State
from fedsuper.errors import FedSuperError
from fedsuper.files import PARTIAL, atomic_write
from fedsuper.train.checkpoint import apart, digest, read_tensors

ENDING = ".safetensors"
_OURS = re.compile(rf"[0-9a-f]{{64}}{re.escape(ENDING)}")


class ModelFiles:
    """The model files of one folder, which has one writer at a time; `written` counts the bytes it has written."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.written = 0
        self._whole: dict[str, int] = {}  # bytes of the files that are known to be whole
        self._last: dict[str, tuple[_Unchanged, str]] = {}

    def keep(self, models: Models) -> dict[str, str]:
        """See to it that every model is on disk; the names of their files, by the keys of the models."""
        now = {key: self._named(key, state) for key, state in models.items()}
        self._last = now
        for key, (_, name) in now.items():
            if not self._has(name):
                self._write(name, models[key])
        return {key: name for key, (_, name) in now.items()}

    def read(self, name: str) -> State:
        """A model as it was written; a missing, torn or altered file is one clear error."""
        state, _ = read_tensors(self._path(name))
        if digest(state) != name:
            raise FedSuperError(f"{self._path(name)}: its contents do not match its digest; resume from an older one")
        return state

    def drop_all_but(self, names: Collection[str]) -> None:
        """Remove the models that nobody names any more and what a killed process was about to write.

        Files that bear other names are somebody else's.
        """
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            unnamed = _OURS.fullmatch(path.name) and path.stem not in names
            if unnamed or path.name.startswith(PARTIAL):
                path.unlink(missing_ok=True)
                self._whole.pop(path.stem, None)

    def _named(self, key: str, state: State) -> tuple[_Unchanged, str]:
        before = self._last.get(key)
        return before if before and before[0].is_still(state) else (_Unchanged(state), digest(_on_cpu(state)))

    def _has(self, name: str) -> bool:
        """Whether a model is on disk, whole; a file of another process is read before it is believed."""
        try:
            size = self._path(name).stat().st_size
        except FileNotFoundError:
            return False
        if name not in self._whole:
            try:
                self.read(name)
            except FedSuperError:
                return False
            self._whole[name] = size
        return self._whole[name] == size

    def _write(self, name: str, state: State) -> None:
        from safetensors.torch import save_file

        path, flat = self._path(name), apart(_on_cpu(state))
        atomic_write(path, lambda temporary: save_file(flat, temporary))
        self._whole[name] = path.stat().st_size
        self.written += self._whole[name]

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{ENDING}"


class _Unchanged:
    """Knows a state again by its tensors, without keeping them in memory.

    A tensor that was changed in place counts as another one; one that does not count its changes is never known again.
    """

    def __init__(self, state: State) -> None:
        self._tensors = {name: (weakref.ref(tensor), _version(tensor)) for name, tensor in state.items()}

    def is_still(self, state: State) -> bool:
        """Whether this is the very same state."""
        return self._tensors.keys() == state.keys() and all(
            ref() is state[name] and version is not None and version == _version(state[name])
            for name, (ref, version) in self._tensors.items())


def _version(tensor: torch.Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


def _on_cpu(state: State) -> State:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
