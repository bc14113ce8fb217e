"""Small data roots and image files for the tests of the data room."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import nibabel
import numpy as np
from PIL import Image as Pillow

RETINA = {"task": "retina", "channels": 3, "regions": {"disc": [1, 2], "cup": [2]}}
PROSTATE = {"task": "prostate", "channels": 1, "regions": {"prostate": [1]}}


def disc_label(size: tuple[int, int], shift: int = 0) -> np.ndarray:
    """A label map with a disc of 1 and, in it, a cup of 2."""
    rows, columns = np.indices(size)
    radius = np.hypot(rows - size[0] / 2 - shift, columns - size[1] / 2)
    return np.where(radius < min(size) / 8, 2, np.where(radius < min(size) / 4, 1, 0)).astype(np.uint8)


def write_picture(path: Path, pixels: np.ndarray, **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Pillow.fromarray(pixels).save(path, **options)
    return path


def write_volume(path: Path, voxels: np.ndarray, affine: np.ndarray | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    affine = np.diag([0.5, 0.5, 3.0, 1.0]) if affine is None else affine
    nibabel.Nifti1Image(voxels, affine).to_filename(path)
    return path


def retina_root(root: Path, sites: tuple[str, ...] = ("a", "b"), images: int = 4, size: int = 32) -> Path:
    """A sound root of RGB pictures."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "dataset.json").write_text(json.dumps(RETINA))
    for number, site in enumerate(sites):
        random = np.random.default_rng(number)
        for index in range(images):
            pixels = random.integers(0, 256, (size, size, 3), dtype=np.uint8)
            write_picture(root / site / "images" / f"eye{index}.png", pixels)
            write_picture(root / site / "labels" / f"eye{index}.png", disc_label((size, size), index))
    return root


def prostate_root(root: Path, sites: tuple[str, ...] = ("x",), volumes: int = 3) -> Path:
    """A sound root of NIfTI volumes."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "dataset.json").write_text(json.dumps(PROSTATE))
    for number, site in enumerate(sites):
        random = np.random.default_rng(100 + number)
        for index in range(volumes):
            voxels = random.integers(0, 1000, (24, 20, 5), dtype=np.int16)
            label = np.zeros((24, 20, 5), dtype=np.uint8)
            label[8:16, 6:14, 1:4] = 1
            write_volume(root / site / "images" / f"case{index}.nii.gz", voxels)
            write_volume(root / site / "labels" / f"case{index}.nii.gz", label)
    return root


def png_bytes(pixels: np.ndarray) -> bytes:
    """A 16-bit PNG of 1 to 4 channels `[H, W, C]`, which Pillow cannot write in color."""
    height, width, channels = pixels.shape
    color = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    lines = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 16, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def tiff16_bytes(pixels: np.ndarray, order: str, deflate: bool = False) -> bytes:
    """A 16-bit RGB TIFF in byte order `<` or `>`."""
    height, width, channels = pixels.shape
    data = pixels.astype(order + "u2").tobytes()
    data = zlib.compress(data) if deflate else data
    data += b"\0" * (len(data) % 2)
    extra = 8 + len(data)
    tags = [
        (256, 4, 1, width),
        (257, 4, 1, height),
        (258, 3, channels, extra),
        (259, 3, 1, 8 if deflate else 1),
        (262, 3, 1, 2),
        (273, 4, 1, 8),
        (277, 3, 1, channels),
        (278, 4, 1, height),
        (279, 4, 1, len(data)),
    ]
    bits = struct.pack(f"{order}{channels}H", *[16] * channels)
    directory = struct.pack(order + "H", len(tags))
    for tag, kind, count, value in tags:
        packed = struct.pack(order + "HH", value, 0) if kind == 3 and count == 1 else struct.pack(order + "I", value)
        directory += struct.pack(order + "HHI", tag, kind, count) + packed
    directory += struct.pack(order + "I", 0)
    magic = b"II*\0" if order == "<" else b"MM\0*"
    return magic + struct.pack(order + "I", extra + len(bits)) + data + bits + directory
