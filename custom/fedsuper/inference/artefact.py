"""The super model on disk: `supermodel.json` and one safetensors file per model. No pickle.

`supermodel.json` is the manifest of the run plus what makes the folder safe to read: the format's version and, for
every weights file, its name and SHA-256. It is replaced last, in one step, and names only files that are already there
whole; so a crash while a folder is rewritten leaves either the old super model or the new one.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsuper.core.state import State, clone
from fedsuper.core.supermodel import GLOBAL, SuperModel
from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write_bytes, atomic_write_json

FORMAT = 1
MANIFEST = "supermodel.json"
SUFFIX = ".safetensors"
SELECTOR = "selector"
PERSONAL = "personal/"
EXTRA = "extra/"


def save_super_model(super_model: SuperModel, folder: Path) -> None:
    """Write the super model to `folder`, whole or not at all; equal weights give equal bytes.

    A file that already holds the same bytes is left alone. One that holds other bytes is still needed by the manifest
    in force, so the new file gets its digest into its name, and the old one goes once no manifest names it.
    """
    from safetensors.torch import save

    folder = Path(folder)
    before = _named_files(folder)
    files: dict[str, dict[str, str]] = {}
    for key, plain_name in _file_names(super_model).items():
        data = save(clone(_model(super_model, key)), {"format": "pt"})
        digest = hashlib.sha256(data).hexdigest()
        name = plain_name
        if (folder / name).exists() and _digest_of(folder / name) != digest:
            name = f"{plain_name.removesuffix(SUFFIX)}-{digest[:12]}{SUFFIX}"
        if not (folder / name).exists() or _digest_of(folder / name) != digest:
            atomic_write_bytes(folder / name, data)
        files[key] = {"name": name, "sha256": digest}
    described = {"mode": super_model.mode, "sites": super_model.sites, "files": files}
    atomic_write_json(folder / MANIFEST, _without_nan({"format": FORMAT} | super_model.manifest | described))
    for name in before - {entry["name"] for entry in files.values()}:
        (folder / name).unlink(missing_ok=True)


def load_super_model(folder: Path) -> SuperModel:
    """Read what `save_super_model` wrote; anything missing, torn, altered or hostile is one clear line."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    sites, files = manifest["sites"], manifest.pop("files")
    manifest.pop("format")
    models = {key: _load_weights(folder, key, entry) for key, entry in files.items()}
    return SuperModel(
        sites=sites,
        global_model=models.get(GLOBAL),
        personal={site: models[PERSONAL + site] for site in sites if PERSONAL + site in models},
        selector=models.get(SELECTOR),
        mode=manifest["mode"],
        manifest=manifest,
        extras={key.removeprefix(EXTRA): state for key, state in models.items() if key.startswith(EXTRA)},
    )


def read_manifest(folder: Path) -> dict[str, Any]:
    """The checked content of `supermodel.json`, without reading any weights."""
    path = Path(folder) / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        state = f"holds no {MANIFEST}" if Path(folder).is_dir() else "there is no such folder"
        raise FedSuperError(f"{folder}: {state}; give the supermodel folder that a run wrote") from None
    except NotADirectoryError:
        raise FedSuperError(f"{folder}: is a file; give the supermodel folder that a run wrote") from None
    except OSError as error:
        raise FedSuperError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None
    except (ValueError, RecursionError) as error:
        raise FedSuperError(f"{path}: is not JSON ({_one_line(error)}); copy the folder again") from None
    if not isinstance(manifest, dict):
        raise FedSuperError(f"{path}: holds a JSON {type(manifest).__name__}, not an object; copy the folder again")
    _check_manifest(path, manifest)
    return manifest


def _check_manifest(path: Path, manifest: dict[str, Any]) -> None:
    version = manifest.get("format")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FedSuperError(f"{path}: has no format version (format: {version!r}); this is not a FedSuper super model")
    if version > FORMAT:
        raise FedSuperError(f"{path}: is of format {version}, this FedSuper reads up to {FORMAT}; install a newer one")
    sites, files = manifest.get("sites"), manifest.get("files")
    if not isinstance(sites, list) or not all(isinstance(site, str) for site in sites) or len(set(sites)) != len(sites):
        raise FedSuperError(f"{path}: 'sites' must list each site's name once, got {sites!r}; copy the folder again")
    if not isinstance(manifest.get("mode"), str):
        raise FedSuperError(f"{path}: 'mode' must be a name, got {manifest.get('mode')!r}; copy the folder again")
    if not isinstance(files, dict) or not files:
        raise FedSuperError(f"{path}: 'files' names no weights; copy the folder again from its source")
    for key, entry in files.items():
        if key not in {GLOBAL, SELECTOR, *(PERSONAL + site for site in sites)} and not key.startswith(EXTRA):
            raise FedSuperError(f"{path}: names the model '{key}', but the sites are {', '.join(sites)}; "
                                "copy the folder again")
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9._-]+", name) or not name.endswith(SUFFIX):
            raise FedSuperError(f"{path}: '{key}' points to {name!r}, expected the plain name of a {SUFFIX} file "
                                "in the folder; do not use this super model")
        if not isinstance(entry.get("sha256"), str):
            raise FedSuperError(f"{path}: '{key}' has no SHA-256; copy the folder again from its source")


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
        return load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise FedSuperError(f"{path}: is not a safetensors file ({_one_line(error)}); copy the folder again") from None


def _model(super_model: SuperModel, key: str) -> State:
    if key.startswith(EXTRA):
        return super_model.extras[key.removeprefix(EXTRA)]
    state = {GLOBAL: super_model.global_model, SELECTOR: super_model.selector}.get(key)
    return state if state is not None else super_model.personal[key.removeprefix(PERSONAL)]


def _file_names(super_model: SuperModel) -> dict[str, str]:
    """Model -> file name, of characters every file system takes; names that fold together are numbered."""
    names: dict[str, str] = {}
    if super_model.global_model is not None:
        names[GLOBAL] = f"{GLOBAL}{SUFFIX}"
    if super_model.selector is not None:
        names[SELECTOR] = f"{SELECTOR}{SUFFIX}"
    rest = {PERSONAL + site: f"personal-{site}" for site in super_model.sites if site in super_model.personal}
    rest |= {EXTRA + name: f"extra-{name}" for name in super_model.extras}
    taken: set[str] = set()
    for key, plain in rest.items():
        stem = safe_name(plain)
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
