"""The border to the image decoders: what a file claims is checked first, and whatever they throw becomes one line."""

from __future__ import annotations

import importlib
import math
import os
import stat
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedsuper.data.problems import DataProblem
from fedsuper.errors import FedSuperError

# Values (pixels times channels) and bytes one file may claim; a header can promise terabytes in a few bytes.
MAX_VALUES = 2**28
MAX_BYTES = 2**31
FORMATS_EXTRA = "pip install 'fedsuper[formats]'"
SPECIAL_FILES = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
                 stat.S_IFBLK: "a device"}  # fmt: skip


def needed(module: str, path: Path, install: str) -> Any:
    """An optional library, or one line that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise DataProblem(path, f"cannot be read or written: {module} is not installed", install) from None


@contextmanager
def decoding(path: Path) -> Iterator[None]:
    """Run a decoder on `path`; its exceptions leave as one DataProblem."""
    try:
        require_content(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except FedSuperError:
        raise
    except FileNotFoundError:
        raise DataProblem(path, "does not exist", "check the name, or the link if it is one") from None
    except PermissionError:
        raise DataProblem(path, "may not be read", "give read permission to the user who runs this") from None
    except Exception as error:  # decoders raise nearly anything on a damaged file
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise DataProblem(
            path, f"cannot be read ({reason})", "it is torn or of another format: restore or export it again"
        ) from error


def require_content(path: Path) -> None:
    """Refuse what is no file or folder (opening a pipe would wait for ever, a device may have no end) or is empty."""
    state = os.stat(path)
    special = SPECIAL_FILES.get(stat.S_IFMT(state.st_mode))
    if special:
        raise DataProblem(path, f"is {special}, not a file", "put the image itself there")
    if stat.S_ISREG(state.st_mode) and state.st_size == 0:
        raise DataProblem(path, "is empty (0 bytes)", "restore it from its source")


def check_size(path: Path, shape: Sequence[int], itemsize: int = 1) -> None:
    """Refuse arrays without content and arrays too large to decode safely, before they are decoded."""
    if any(length <= 0 for length in shape):
        raise DataProblem(path, f"holds no pixels (shape {tuple(shape)})", "export it again")
    values = math.prod(shape)
    if values > MAX_VALUES:
        what = f"claims {values:,} values (shape {tuple(shape)}), the limit is {MAX_VALUES:,}"
        raise DataProblem(path, what, "crop or downsample it, or remove it if it was not meant to be that large")
    check_bytes(path, values * itemsize)


def check_bytes(path: Path, count: int) -> None:
    """Refuse a file that would take more memory than any image of a study needs."""
    if count > MAX_BYTES:
        what = f"takes {count / 2**30:.1f} GB of memory, the limit is {MAX_BYTES / 2**30:g} GB"
        raise DataProblem(path, what, "crop or downsample it, or remove it if it was not meant to be that large")
