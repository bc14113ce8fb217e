"""MetaImage volumes: a text header `.mhd` with its voxels in `.raw` or `.zraw`, or both in one `.mha`."""

from __future__ import annotations

import math
import zlib
from pathlib import Path

import numpy as np

from fedsuper.data.decoding import decoding
from fedsuper.data.importers.volumes import LPS_TO_RAS, Volume
from fedsuper.data.problems import DataProblem

TYPES = {
    "MET_CHAR": "i1",
    "MET_UCHAR": "u1",
    "MET_SHORT": "i2",
    "MET_USHORT": "u2",
    "MET_INT": "i4",
    "MET_UINT": "u4",
    "MET_FLOAT": "f4",
    "MET_DOUBLE": "f8",
}
HEADER_LIMIT = 65536


def read_metaimage(path: Path) -> Volume:
    """The volume of a MetaImage header, in NIfTI's axis order (x, y, z) and orientation (RAS)."""
    with decoding(path):
        content = path.read_bytes()
        header, end = _header(content[:HEADER_LIMIT])
        kind = np.dtype(TYPES[header["ElementType"]])
        size = [int(length) for length in header["DimSize"].split()]
        local = header["ElementDataFile"] == "LOCAL"
        data = content[end:] if local else _neighbour(path, header["ElementDataFile"]).read_bytes()
        if header.get("CompressedData", "False") == "True":
            data = zlib.decompress(data)
        if len(size) != 3:
            raise ValueError(f"{len(size)} axes, a volume has 3")
        if len(data) != math.prod(size) * kind.itemsize:
            raise ValueError(f"{math.prod(size) * kind.itemsize} bytes of voxels expected, {len(data)} found")
        big = "True" in (header.get("BinaryDataByteOrderMSB"), header.get("ElementByteOrderMSB"))
        voxels = np.frombuffer(data, kind.newbyteorder(">" if big else "<")).reshape(size, order="F")
        return Volume(voxels.astype(kind), _affine(header))


def _neighbour(path: Path, name: str) -> Path:
    """The voxel file a header names; it lies beside the header."""
    data = path.parent / Path(name).name
    if not data.is_file():
        raise DataProblem(path, f"its voxel file {data.name} is missing", "put it beside the header")
    return data


def _header(content: bytes) -> tuple[dict[str, str], int]:
    """The `key = value` lines up to `ElementDataFile`, which is the last one, and where they end."""
    fields: dict[str, str] = {}
    end = 0
    for line in content.splitlines(keepends=True):
        end += len(line)
        key, _, value = line.decode("latin-1").partition("=")
        fields[key.strip()] = value.strip()
        if key.strip() == "ElementDataFile":
            break
    return fields, end


def _affine(header: dict[str, str]) -> np.ndarray:
    """Voxel indices to millimetres: each row of TransformMatrix is the direction of one voxel axis, in LPS."""
    directions = np.array((header.get("TransformMatrix") or "1 0 0 0 1 0 0 0 1").split(), dtype=float).reshape(3, 3)
    spacing = np.array((header.get("ElementSpacing") or header.get("ElementSize") or "1 1 1").split(), dtype=float)
    affine = np.eye(4)
    affine[:3, :3] = directions.T * spacing
    affine[:3, 3] = np.array((header.get("Offset") or header.get("Position") or "0 0 0").split(), dtype=float)
    return LPS_TO_RAS @ affine
