"""From an upload to an image in memory. The file lies in a temporary folder while it is read and nowhere afterwards."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from fedsuper.data.images.io import Image, images_of_folder, read_image
from fedsuper.errors import FedSuperError

MOST_FILES = 2000
NAME_LENGTH = 100


def read_upload(files: Sequence[tuple[str, IO[bytes]]]) -> tuple[str, Image]:
    """The image that one file, or the files of one DICOM series, hold, with a plain name for it.

    An uploader's names never become paths: a file keeps its ending and nothing else.
    """
    if not files:
        raise FedSuperError("no file came with the upload; drop one image, one volume or the files of one series")
    if len(files) > MOST_FILES:
        raise FedSuperError(f"{len(files)} files were dropped, {MOST_FILES} are the most; use `fedsuper predict`")
    name = plain_name(files[0][0])
    with tempfile.TemporaryDirectory(prefix="fedsuper-upload-") as temporary:
        folder = Path(temporary) / "upload"
        folder.mkdir()
        for number, (given, file) in enumerate(files):
            with open(folder / f"file-{number:05d}{_endings(given)}", "wb") as target:
                shutil.copyfileobj(file, target)
        try:
            return name, _only_image(folder)
        except FedSuperError as problem:
            raise FedSuperError(_without_paths(str(problem), temporary, name)) from None


def plain_name(given: str) -> str:
    """An uploader's file name without folders and without anything but letters, digits, dot, dash and underscore."""
    last = re.split(r"[\\/]", given)[-1]
    return re.sub(r"[^A-Za-z0-9._-]+", "_", last).lstrip(".")[-NAME_LENGTH:] or "image"


def _only_image(folder: Path) -> Image:
    found = images_of_folder(folder)
    if not found:
        raise FedSuperError("the file is no image this page knows; drop a PNG, JPEG, TIFF, BMP, NIfTI or DICOM file")
    if len(found) > 1:
        raise FedSuperError(f"{len(found)} images were dropped at once; drop one, or use `fedsuper predict` for many")
    return read_image(found[0])


def _endings(given: str) -> str:
    """`.nii.gz` of `scan.v2.nii.gz`; what is no known ending is kept too, the reader will judge it."""
    parts = plain_name(given).lower().split(".")[1:][-2:]
    kept = parts if parts[-1:] == ["gz"] else parts[-1:]
    return "".join(f".{part[:8]}" for part in kept)


def _without_paths(text: str, temporary: str, name: str) -> str:
    return re.sub(rf"{re.escape(temporary)}(/upload)?(/file-\d+[\w.]*)?", name, text)
