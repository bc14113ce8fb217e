"""Writes that either happen whole or not at all, and the one reader of JSON that we wrote."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from fedsuper.errors import OS_ADVICE, FedSuperError

LOCK = ".lock"  # names the process that owns a folder
GLANCE = 0.1  # seconds that whoever asks for the owner may hold the lock
PARTIAL = ".partial-"  # how the name of an unfinished file begins
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LOOK_FOR_ROOM = 1.0  # seconds between two tries on a full disk
_thread = threading.local()
_OS_ERROR = re.compile(r"\(os error (\d+)\)")  # how libraries written in Rust (safetensors) spell an OSError


def atomic_write(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, then move it into place in one step.

    A crash at any moment leaves either the old file or the new one, never a torn one. The file gets the rights the
    user's umask gives to new files. A full or forbidden disk is an OSError that names `path`.
    """
    path = Path(path)
    temporary = _beside(path)
    try:
        file_number = _create(temporary)
        rights = os.fstat(file_number).st_mode
        os.close(file_number)
    except OSError as error:
        raise _about(path, error) from error
    try:
        write(temporary)
        with open(temporary, "rb") as file:
            if not getattr(_thread, "unhurried", False):
                os.fsync(file.fileno())
            if os.fstat(file.fileno()).st_mode != rights:  # the writer has put a file of its own in its place
                os.fchmod(file.fileno(), stat.S_IMODE(rights))
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        raise _about(path, error) from error


@contextlib.contextmanager
def unhurried() -> Iterator[None]:
    """This thread's atomic writes do not wait for the disk: for what can be made again at little cost.

    A process that dies still leaves whole files only. A machine that loses power may leave the last ones empty.
    """
    _thread.unhurried = True
    try:
        yield
    finally:
        _thread.unhurried = False


def with_room(write: Callable[[], None], seconds: float, note: Callable[[str], None],
              hurried: threading.Event | None = None) -> None:
    """Let `write` write; on a full disk again and again, for so many seconds or until it is `hurried`.

    `note` hears once that room is waited for, and once that it was found.
    """
    hurried, deadline = hurried or threading.Event(), None
    while True:
        try:
            write()
        except OSError as error:
            if error.errno not in FULL or (deadline is None and seconds <= 0):
                raise
            if deadline is None:
                deadline = time.monotonic() + seconds
                what, _, _ = OS_ADVICE[error.errno].partition(";")
                note(f"warning: {Path(error.filename or 'a file').name} cannot be written ({what}); the study waits "
                     f"for room, {seconds:.0f} s at most")
            if time.monotonic() > deadline or hurried.wait(LOOK_FOR_ROOM):
                raise
        else:
            if deadline is not None:
                note("there is room on the disk again")
            return


def _beside(path: Path) -> Path:
    """A new name in the folder of `path`.

    The ending is kept so that writers that choose a format by suffix (pillow, nibabel) work unchanged.
    """
    return path.with_name(f"{PARTIAL}{secrets.token_hex(8)}{''.join(path.suffixes[-2:])}")


def _create(path: Path) -> int:
    """Open a new, empty file for writing, in a new folder where there is none."""
    how = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0)
    try:
        return os.open(path, how, 0o666)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, how, 0o666)


def _about(path: Path, error: BaseException) -> BaseException:
    """The same error, with `path` where it is one of the disk's."""
    told = _OS_ERROR.search(str(error))
    number = error.errno if isinstance(error, OSError) else int(told[1]) if told else None
    return error if number is None else OSError(number, os.strerror(number), str(path))


def check_place(path: Path) -> None:
    """Raise the OSError that a first write to `path` would meet, before any work is done; nothing is left there."""
    place = Path(path).absolute()
    if place.exists() and not place.is_dir():
        place = place.parent
    while not place.exists() and not place.is_symlink():
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"\0")
    except OSError as error:
        raise _about(Path(path), error) from error


def forget_unfinished(folder: Path) -> None:
    """Remove what a killed process was about to write into `folder`; for whoever is the only one to write there."""
    for torn in Path(folder).glob(f"{PARTIAL}*"):
        torn.unlink(missing_ok=True)


@contextlib.contextmanager
def owned(folder: Path, what: str, patience: float = 0.0) -> Iterator[None]:
    """Be the folder's only owner for a while; a second one is told so, after `patience` seconds of waiting.

    The lock dies with its process. `is_owned` holds it for an instant, so one more look is always taken.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOCK, "a+", encoding="utf-8") as file:
        deadline = time.monotonic() + max(patience, GLANCE)
        while not _locked(file):
            if time.monotonic() >= deadline:
                file.seek(0)
                raise FedSuperError(f"{folder}: {what} is at work here already (process {file.read(20).strip() or '?'}"
                                    "); wait for it or stop it, or give another folder")
            time.sleep(0.2)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        forget_unfinished(folder)
        yield


def is_owned(folder: Path) -> bool:
    """Whether a process is at work in a folder now."""
    try:
        with open(Path(folder) / LOCK, encoding="utf-8") as file:
            return not _locked(file)  # a lock that was got goes with the file
    except OSError:
        return False


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def cut_back(path: Path, longest: int) -> bool:
    """Keep a log that others append to from growing: beyond `longest` bytes it becomes `NAME.1` and begins anew."""
    if not path.exists() or path.stat().st_size <= longest:
        return False
    shutil.copyfile(path, path.with_name(f"{path.name}.1"))
    os.truncate(path, 0)  # its writers append, so they go on at its new end
    return True


def atomic_write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path`, whole or not at all; with half the system calls of `atomic_write`."""
    path = Path(path)
    temporary = _beside(path)
    try:
        with open(_create(temporary), "wb", buffering=0) as file:
            _write_all(file, data)
            if not getattr(_thread, "unhurried", False):
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        raise _about(path, error) from error


def _write_all(file: io.RawIOBase, data: bytes) -> None:
    """A single write may take a part only (2 GB on Linux)."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) or 0 :]


def atomic_write_text(path: Path, text: str) -> None:
    """Write UTF-8 `text` to `path`, whole or not at all."""
    atomic_write_bytes(path, text.encode("utf-8"))


def atomic_write_json(path: Path, value: Any) -> None:
    """Write `value` as readable JSON; NaN is refused because other tools could not read it back."""
    atomic_write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: Path, fix: str) -> dict[str, Any]:
    """The JSON object in `path`; whatever is wrong with it is one line that ends with `fix`, what to do."""
    path = Path(path)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FedSuperError(f"{path}: cannot be read ({error.strerror}); {fix}") from None
    except (ValueError, RecursionError) as error:
        line = " ".join(str(error).split())[:120]
        raise FedSuperError(f"{path}: is not JSON, perhaps torn ({line}); {fix}") from None
    if not isinstance(value, dict):
        raise FedSuperError(f"{path}: holds a JSON {type(value).__name__}, expected an object; {fix}")
    return value
