"""The names of the ready studies, known without loading what runs them."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def ready_names() -> list[str]:
    """Every ready study."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))
