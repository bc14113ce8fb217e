"""`supermodel.json`: what it must hold before a single weight is read."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from fedsuper.core.supermodel import EXTRA, GLOBAL, PERSONAL, SELECTOR
from fedsuper.errors import FedSuperError
from fedsuper.files import read_json

FORMAT = 1
MANIFEST = "supermodel.json"
SUFFIX = ".safetensors"


def read_manifest(folder: Path) -> dict[str, Any]:
    """The checked content of `supermodel.json`, without reading any weights."""
    folder = Path(folder)
    path = folder / MANIFEST
    if not path.exists():
        state = "is a file" if folder.exists() else "there is no such folder"
        state = f"holds no {MANIFEST}" if folder.is_dir() else state
        raise FedSuperError(f"{folder}: {state}; give the supermodel folder that a run wrote")
    manifest = read_json(path, "copy the folder again")
    check_manifest(path, manifest)
    return manifest


def check_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Refuse what is no manifest of ours, or would lead out of its folder; `path` is whose it is, for the message."""
    version = manifest.get("format")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FedSuperError(f"{path}: has no format version (format: {version!r}); this is not a FedSuper super model")
    if version > FORMAT:
        raise FedSuperError(f"{path}: is of format {version}, this FedSuper reads up to {FORMAT}; install a newer one")
    sites, files = manifest.get("sites"), manifest.get("files")
    if not isinstance(sites, list) or not all(isinstance(site, str) for site in sites) or len(set(sites)) != len(sites):
        raise FedSuperError(f"{path}: 'sites' must list each site's name once, got {sites!r}; copy the folder again")
    for site in sites:
        if site == GLOBAL or not site.strip() or not site.isprintable():
            raise FedSuperError(f"{path}: a site cannot be called {site!r}, which means or shows something else; "
                                "do not use this super model")
    if not isinstance(manifest.get("mode"), str):
        raise FedSuperError(f"{path}: 'mode' must be a name, got {manifest.get('mode')!r}; copy the folder again")
    gamma = manifest.get("gamma")
    if gamma is not None and (isinstance(gamma, bool) or not isinstance(gamma, (int, float)) or not 0 <= gamma <= 1):
        raise FedSuperError(f"{path}: 'gamma' must be a number from 0 to 1, got {gamma!r}; copy the folder again, "
                            "and use --gamma for another threshold")
    if not isinstance(files, dict) or not files:
        raise FedSuperError(f"{path}: 'files' names no weights; copy the folder again from its source")
    _check_files(path, sites, files)
    if "seal" in manifest and manifest["seal"] != seal(manifest):
        raise FedSuperError(f"{path}: its sites or files are not as they were written (a list put in another order "
                            "names other hospitals); copy the folder again from its source")


def seal(manifest: dict[str, Any]) -> str:
    """What ties the order of the sites to the weights: SHA-256 over both. The selector knows sites by their order."""
    digests = {key: entry["sha256"] for key, entry in manifest["files"].items()}
    return hashlib.sha256(json.dumps([manifest["sites"], digests], sort_keys=True).encode()).hexdigest()


def _check_files(path: Path, sites: list[str], files: dict[str, Any]) -> None:
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
