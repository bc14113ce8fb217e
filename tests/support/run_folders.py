"""What tests ask of a run's folder."""

from __future__ import annotations

from pathlib import Path

from fedsuper.inference.supermodel_manifest import read_manifest


def weights(super_model: Path) -> dict[str, bytes]:
    """The weights of every model of a super model's folder, byte for byte.

    By model, not by file: a super model that took another's place has digests in its files' names.
    """
    files = read_manifest(super_model)["files"]
    found = {model: (super_model / entry["name"]).read_bytes() for model, entry in files.items()}
    assert found
    return found
