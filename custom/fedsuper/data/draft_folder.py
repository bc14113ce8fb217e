"""A folder that appears whole or not at all."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def draft_beside(target: Path) -> Iterator[Path]:
    """A hidden folder next to `target` to fill and then rename or empty into place; what is left of it is removed.

    It lies on the same file system as `target`, so moving things over is one step each. Folders above `target`
    that were made for it are taken away again when they stay empty.
    """
    made = [folder for folder in (target.parent, *target.parent.parents) if not folder.exists()]
    draft: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.parent / f".draft-{target.name}-{secrets.token_hex(4)}"
        draft.mkdir()  # with the rights that the umask gives: it becomes `target`
        yield draft
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)
        with suppress(OSError):  # stops at the first folder that is in use, or was not made
            for folder in made:
                folder.rmdir()
