"""The super model on disk: `supermodel.json` and one safetensors file per model. No pickle.

`supermodel.json` is the manifest of the run plus what makes the folder safe to read: the format's version and, for
every weights file, its name and SHA-256. It is replaced last, in one step, and names only files that are already there
whole; so a crash while a folder is rewritten leaves either the old super model or the new one.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fedsuper.core.state import State, clone, is_float
from fedsuper.core.supermodel import PERSONAL, SuperModel
from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write_bytes, atomic_write_json
from fedsuper.inference.passes import compute_threads
from fedsuper.inference.supermodel_manifest import FORMAT, MANIFEST, SUFFIX, read_manifest, seal

OPENED_AT_ONCE = 2  # models of which the bytes are in memory while they are checked
# Called with the name and the weights of every model of a super model that is opened, in some thread.
Check = Callable[[str, State], None]


def save_super_model(super_model: SuperModel, folder: Path) -> None:
    """Write the super model to `folder`, whole or not at all; equal weights give equal bytes.

    A file that already holds the same bytes is left alone. One that holds other bytes is still needed by the manifest
    in force, so the new file gets its digest into its name, and the old one goes once no manifest names it.
    """
    from safetensors.torch import save

    folder = Path(folder)
    before = _named_files(folder)
    files: dict[str, dict[str, str]] = {}
    models = super_model.to_models()
    for key, plain_name in _file_names(models).items():
        data = save(clone(models[key]), {"format": "pt"})
        digest = hashlib.sha256(data).hexdigest()
        name = plain_name
        if (folder / name).exists() and _digest_of(folder / name) != digest:
            name = f"{plain_name.removesuffix(SUFFIX)}-{digest[:12]}{SUFFIX}"
        if not (folder / name).exists() or _digest_of(folder / name) != digest:
            atomic_write_bytes(folder / name, data)
        files[key] = {"name": name, "sha256": digest}
    described: dict[str, Any] = {"mode": super_model.mode, "sites": super_model.sites, "files": files}
    described["seal"] = seal(described)
    atomic_write_json(folder / MANIFEST, _without_nan({"format": FORMAT} | super_model.manifest | described))
    for name in before - {entry["name"] for entry in files.values()}:
        (folder / name).unlink(missing_ok=True)


def load_super_model(folder: Path) -> SuperModel:
    """Read what `save_super_model` wrote; anything missing, torn, altered or hostile is one clear line."""
    manifest, files = _manifest_and_files(Path(folder))
    models = {key: _load_weights(Path(folder), key, entry) for key, entry in files.items()}
    return SuperModel.from_models(models, manifest["sites"], manifest["mode"], manifest)


def open_super_model(folder: Path, check: Check | None = None) -> SuperModel:
    """The same, with the personalized models left on disk: each is read when it is asked for, and not kept.

    All weights are read and checked once, `OPENED_AT_ONCE` models at a time, so that what is wrong with the last one is
    told before the first is used.
    """
    folder = Path(folder)
    manifest, files = _manifest_and_files(folder)

    def checked(key: str) -> State | None:
        state = _load_weights(folder, key, files[key])
        if check is not None:
            check(key, state)
        return None if key.startswith(PERSONAL) else state

    with compute_threads(OPENED_AT_ONCE, "open") as pool:
        states = zip(files, pool.map(checked, files), strict=True)
        models = {key: state for key, state in states if state is not None}
    whole = SuperModel.from_models(models, manifest["sites"], manifest["mode"], manifest)
    stored = {site: files[PERSONAL + site] for site in whole.sites if PERSONAL + site in files}
    whole.personal = StoredModels(folder, stored)
    return whole


class StoredModels(Mapping[str, State]):
    """Personalized models by site that stay on disk; each access reads the file anew and checks it again."""

    def __init__(self, folder: Path, entries: Mapping[str, Mapping[str, str]]) -> None:
        self.folder = folder
        self.entries = entries

    def __getitem__(self, site: str) -> State:
        return _load_weights(self.folder, PERSONAL + site, self.entries[site])

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, site: object) -> bool:
        return site in self.entries


def _manifest_and_files(folder: Path) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    manifest = read_manifest(folder)
    files = manifest.pop("files")
    for key in ("format", "seal"):
        manifest.pop(key, None)
    return manifest, files


def _load_weights(folder: Path, key: str, entry: Mapping[str, str]) -> State:
    from safetensors import SafetensorError
    from safetensors.torch import load

    path = folder / entry["name"]
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise FedSuperError(f"{path}: the weights of '{key}' are missing; copy the whole folder again") from None
    except OSError as error:
        raise FedSuperError(f"{path}: cannot be read ({error.strerror}); check the file and its permissions") from None
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise FedSuperError(f"{path}: is torn or altered (its SHA-256 is not as in {MANIFEST}); copy it again")
    try:
        state = load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise FedSuperError(f"{path}: is not a safetensors file ({_one_line(error)}); copy the folder again") from None
    for name, tensor in state.items():
        if is_float(tensor) and not bool(tensor.isfinite().all()):
            raise FedSuperError(f"{path}: the weights of '{key}' hold NaN or infinite values (entry {name}), so every "
                                "mask would be worthless; do not use this super model")
    return state


def _file_names(models: Iterable[str]) -> dict[str, str]:
    """Model -> file name, of characters every file system takes; names that fold together are numbered."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for key in models:
        stem = safe_name(key.replace("/", "-", 1))
        number, unique = 1, stem
        while unique.casefold() in taken:
            number += 1
            unique = f"{stem}-{number}"
        taken.add(unique.casefold())
        names[key] = unique + SUFFIX
    return names


def safe_name(text: str) -> str:
    """`text` with everything but ASCII letters, digits, dot, dash and underscore replaced."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)[:120]


def _named_files(folder: Path) -> set[str]:
    """The weights files that the super model already in `folder` names; none where there is no sound one."""
    try:
        return {entry["name"] for entry in read_manifest(folder)["files"].values()}
    except FedSuperError:
        return set()


def _digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _without_nan(value: Any) -> Any:
    """JSON knows neither NaN nor infinity: such a metric becomes null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    return [_without_nan(item) for item in value] if isinstance(value, (list, tuple)) else value


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:120]
