"""Writes that either happen whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def atomic_write(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, then move it into place in one step.

    A crash at any moment leaves either the old file or the new one, never a torn one.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The ending is kept so that writers that choose a format by suffix (pillow, nibabel) work unchanged.
    handle, name = tempfile.mkstemp(prefix=".partial-", suffix="".join(path.suffixes[-2:]), dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def atomic_write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path`, whole or not at all."""

    def write(temporary: Path) -> None:
        temporary.write_bytes(data)

    atomic_write(path, write)


def atomic_write_text(path: Path, text: str) -> None:
    """Write UTF-8 `text` to `path`, whole or not at all."""
    atomic_write_bytes(path, text.encode("utf-8"))


def atomic_write_json(path: Path, value: Any) -> None:
    """Write `value` as readable JSON; NaN is refused because other tools could not read it back."""
    atomic_write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")
