"""What tests ask of a run's folder."""

from __future__ import annotations

from pathlib import Path


def weights(super_model: Path) -> dict[str, bytes]:
    """Every weights file of a super model's folder, byte for byte."""
    found = {path.name: path.read_bytes() for path in super_model.glob("*.safetensors")}
    assert found
    return found
