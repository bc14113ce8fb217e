"""NRRD volumes: a text header, an empty line, the voxels (raw or gzip)."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np

from fedsuper.data.decoding import decoding
from fedsuper.data.importers.volumes import LPS_TO_RAS, Volume

TYPES = {
    "i1": ("signed char", "int8", "int8_t"),
    "u1": ("uchar", "unsigned char", "uint8", "uint8_t"),
    "i2": ("short", "short int", "signed short", "int16", "int16_t"),
    "u2": ("ushort", "unsigned short", "uint16", "uint16_t"),
    "i4": ("int", "signed int", "int32", "int32_t"),
    "u4": ("uint", "unsigned int", "uint32", "uint32_t"),
    "f4": ("float",),
    "f8": ("double",),
}
TO_RAS = {
    "left-posterior-superior": LPS_TO_RAS,
    "lps": LPS_TO_RAS,
    "right-anterior-superior": np.eye(4),
    "ras": np.eye(4),
}


def read_nrrd(path: Path) -> Volume:
    """The volume of a NRRD file, in RAS millimetres where the header gives a space."""
    with decoding(path):
        head, _, data = path.read_bytes().partition(b"\n\n")
        magic, *lines = head.decode("latin-1").splitlines()
        if not magic.startswith("NRRD"):
            raise ValueError("not a NRRD file")
        fields = dict(line.split(": ", 1) for line in lines if ": " in line and not line.startswith("#"))
        kind = np.dtype(next((code for code, names in TYPES.items() if fields["type"] in names), "V1"))
        size = [int(length) for length in fields["sizes"].split()]
        if fields["encoding"] in ("gzip", "gz"):
            data = gzip.decompress(data)
        if kind.kind == "V" or len(size) != 3 or fields["encoding"] not in ("raw", "gzip", "gz"):
            raise ValueError(f"type {fields['type']}, {len(size)} axes, encoding {fields['encoding']} are not read")
        if len(data) < math.prod(size) * kind.itemsize:
            raise ValueError(f"{math.prod(size) * kind.itemsize} bytes of voxels expected, {len(data)} found")
        order = kind.newbyteorder(">" if fields.get("endian") == "big" else "<")
        voxels = np.frombuffer(data, order, count=math.prod(size)).reshape(size, order="F")
        return Volume(voxels.astype(kind), _affine(fields))


def _affine(fields: dict[str, str]) -> np.ndarray | None:
    """Voxel indices to millimetres; None where the header gives no space or one with other axes."""
    turn = TO_RAS.get(fields.get("space", "").lower())
    if turn is None or "space directions" not in fields:
        return None
    affine = np.eye(4)
    affine[:3, :3] = np.array([_vector(text) for text in fields["space directions"].split()]).T
    affine[:3, 3] = _vector(fields.get("space origin", "(0,0,0)"))
    return turn @ affine


def _vector(text: str) -> list[float]:
    return [float(number) for number in text.strip("()").split(",")]
