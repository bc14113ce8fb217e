"""Super models by content: a site that holds a file of the same digest is not sent it again.

A model is known by the SHA-256 that the manifest gives for its file, wherever a super model lies: handed over at the
end of a training, or kept from an earlier prediction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedsuper.core.state import State, clone
from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write_bytes, atomic_write_json
from fedsuper.inference.supermodel_manifest import MANIFEST, check_manifest, read_manifest

PRIVATE = ("history",)  # what a site need not hear of the others to predict


def identity_of(folder: Path) -> str:
    """A super model's name among all others: the first digits of its manifest's SHA-256, which covers its weights."""
    read_manifest(folder)
    return hashlib.sha256((Path(folder) / MANIFEST).read_bytes()).hexdigest()[:16]


def offered(folder: Path) -> dict[str, Any]:
    """The manifest as sites are sent it."""
    return {key: value for key, value in read_manifest(folder).items() if key not in PRIVATE}


class HeldModels:
    """The weights files of all super models under `places`, by digest."""

    def __init__(self, places: Iterable[Path]) -> None:
        self.files: dict[str, Path] = {}
        for manifest in sorted(path for place in places for path in Path(place).glob(MANIFEST)):
            try:
                entries = read_manifest(manifest.parent)["files"].values()
            except FedSuperError:  # half written, or not ours: as if it were not there
                continue
            self.files |= {entry["sha256"]: manifest.parent / entry["name"] for entry in entries}

    def missing(self, manifest: Mapping[str, Any]) -> list[str]:
        """The models of a manifest that are not here, or no longer whole."""
        return [key for key, entry in manifest["files"].items() if self._read(entry["sha256"]) is None]

    def assemble(self, folder: Path, manifest: Mapping[str, Any], received: Mapping[str, State]) -> None:
        """Write the super model of `manifest` to `folder` from what was received and what is held; manifest last."""
        from safetensors.torch import save

        check_manifest(Path(MANIFEST), dict(manifest))
        for key, entry in manifest["files"].items():
            data = save(clone(received[key]), {"format": "pt"}) if key in received else self._read(entry["sha256"])
            if data is None:
                raise FedSuperError(f"the server did not send '{key}', which this site does not hold")
            if hashlib.sha256(data).hexdigest() != entry["sha256"]:
                raise FedSuperError(f"what the server sent as '{key}' is not what its digest says")
            atomic_write_bytes(Path(folder) / entry["name"], data)
        atomic_write_json(Path(folder) / MANIFEST, dict(manifest))

    def _read(self, digest: str) -> bytes | None:
        path = self.files.get(digest)
        try:
            data = path.read_bytes() if path else None
        except OSError:
            return None
        return data if data is not None and hashlib.sha256(data).hexdigest() == digest else None
