"""What a user sees when something is wrong: one exception, and the system's errors in the same voice."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from pathlib import Path


class FedSuperError(Exception):
    """A problem the user can fix.

    The message is one line that says who is concerned, what was expected, what came, and what to do;
    the command line prints it as it is and exits non-zero, without a traceback.
    """


def exit_code(work: Callable[[], str]) -> int:
    """For a command of its own (`python -m`): print what `work` returns (0), or its problem in a line (2)."""
    try:
        print(work())
    except FedSuperError as problem:
        print(f"fedsuper: {problem}", file=sys.stderr)
        return 2
    return 0


OS_ADVICE: dict[int, str] = {
    errno.ENOSPC: "no space is left on the disk; make room or give a place on another disk, then run the command again",
    errno.EDQUOT: "the disk quota is used up; make room or give a place on another disk, then run the command again",
    errno.EFBIG: "the file would be larger than this account or file system allows; give another place",
    errno.EROFS: "the file system is read-only; give a place that can be written to",
    errno.EACCES: "permission denied; ask for the right, or give another place",
    errno.EPERM: "not permitted; ask for the right, or give another place",
    errno.ENOTDIR: "a part of this path is a file where a folder is needed; give another place",
    errno.EISDIR: "is a folder where a file is needed; give the path of a file",
    errno.EEXIST: "is there already and is not a folder; give another place",
    errno.ENOENT: "is not there; check the path",
    errno.ENAMETOOLONG: "the name is too long for the file system; give a shorter one",
    errno.ELOOP: "symbolic links that lead in a circle; give a path without them",
    errno.EMFILE: "too many files are open; raise the limit (ulimit -n) and run the command again",
    errno.EIO: "the disk gave an input/output error; check the disk, then run the command again",
    errno.ESTALE: "the network drive went away; mount it again, then run the command again",
}


def explain_os_error(error: OSError, place: Path | None = None) -> str | None:
    """A system error as one line: the path (`place` where the system names none), what is wrong, what to do.

    None for an error without a number: that is a fault in the program, not of the machine.
    """
    if error.errno is None:
        return None
    where = error.filename if isinstance(error.filename, str) else place
    advice = OS_ADVICE.get(error.errno, f"{error.strerror}; check the path and the disk")
    return f"{where or 'the disk'}: {advice}"


# The modules that only some users need, and the extra of the package that brings each.
EXTRA_OF: dict[str, str] = {
    "nvflare": "flare",
    "psutil": "flare",
    "opacus": "privacy",
    "contourpy": "report",
    "jinja2": "report",
    "markupsafe": "report",
    "matplotlib": "report",
    "imagecodecs": "formats",
    "SimpleITK": "formats",
    "tifffile": "formats",
    "pydicom": "dicom",
    "highdicom": "dicom",
    "starlette": "serve",
    "uvicorn": "serve",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "onnxscript": "onnx",
}


def explain_missing_module(error: ModuleNotFoundError) -> str | None:
    """A part of the package that was not installed, as one line; None for any other missing module."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRA_OF:
        return None
    return f"this needs {module}, which is not installed; install it with: pip install 'fedsuper[{EXTRA_OF[module]}]'"
