"""Ways to spoil a sound data root: torn, moved, changed and missing files, and what must be said of each."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nibabel
import numpy as np
from data_roots import png_bytes, retina_root, write_picture, write_volume
from PIL import Image as Pillow

EYE, EYE_LABEL = "a/images/eye1.png", "a/labels/eye1.png"
CASE, CASE_LABEL = "x/images/case1.nii.gz", "x/labels/case1.nii.gz"


@dataclass(frozen=True)
class Broken:
    """How a sound root is spoilt, and what must be said of it; `trains` is whether training goes on all the same."""

    spoil: Callable[[Path], object]
    file: str
    words: str
    level: str = "error"
    trains: bool = False
    sound: Callable[[Path], Path] = retina_root


def task_file(**changes) -> Callable[[Path], object]:
    """Change keys of dataset.json; None removes one."""

    def spoil(root: Path) -> None:
        value = json.loads((root / "dataset.json").read_text()) | changes
        (root / "dataset.json").write_text(json.dumps({k: v for k, v in value.items() if v is not None}))

    return spoil


def text(file: str, content: str | bytes) -> Callable[[Path], object]:
    data = content.encode() if isinstance(content, str) else content
    return lambda root: (root / file).write_bytes(data)


def torn(file: str, keep: float = 0.5) -> Callable[[Path], object]:
    def spoil(root: Path) -> None:
        data = (root / file).read_bytes()
        (root / file).write_bytes(data[: int(len(data) * keep)])

    return spoil


def picture(file: str, pixels: np.ndarray, **options) -> Callable[[Path], object]:
    return lambda root: write_picture(root / file, pixels, **options)


def volume(file: str, voxels: np.ndarray, affine: np.ndarray | None = None) -> Callable[[Path], object]:
    return lambda root: write_volume(root / file, voxels, affine)


def header(file: str, **fields) -> Callable[[Path], object]:
    """Overwrite fields of a NIfTI header in place, without nibabel's help in keeping it sane."""

    def spoil(root: Path) -> None:
        data = gzip.decompress((root / file).read_bytes())
        raw = nibabel.Nifti1Header(data[:348], check=False)
        for key, value in fields.items():
            raw[key] = value
        (root / file).write_bytes(gzip.compress(raw.binaryblock + data[348:]))

    return spoil


def all_of(*steps: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda root: [step(root) for step in steps]


def moved(source: str, target: str) -> Callable[[Path], object]:
    return lambda root: (root / source).rename(root / target)


def copied(source: str, target: str) -> Callable[[Path], object]:
    return lambda root: shutil.copyfile(root / source, root / target)


def removed(*files: str) -> Callable[[Path], object]:
    return lambda root: [(root / file).unlink() for file in files]


def flipped_byte(file: str) -> Callable[[Path], object]:
    def spoil(root: Path) -> None:
        data = bytearray(gzip.compress(gzip.decompress((root / file).read_bytes()), compresslevel=0))
        data[-1000] ^= 0x10
        (root / file).write_bytes(data)

    return spoil


def bomb_png(width: int, height: int) -> bytes:
    data = bytearray(png_bytes(np.zeros((4, 4, 3), np.uint16)))
    data[16:24] = struct.pack(">II", width, height)
    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    return bytes(data)


def pages(root: Path) -> None:
    (root / EYE).unlink()
    one, two = (Pillow.fromarray(np.full((32, 32, 3), value, np.uint8)) for value in (3, 200))
    one.save(root / "a/images/eye1.tif", save_all=True, append_images=[two])


def noise(*shape: int, dtype: type = np.uint8) -> np.ndarray:
    return np.random.default_rng(9).integers(0, 250, shape).astype(dtype)


CASES_CSV = "name,case\neye0,p0\neye1,p1\neye2,p2\neye3,p3\n"
NAN = np.where(np.indices((24, 20, 5))[2] == 2, np.nan, noise(24, 20, 5)).astype(np.float32)
