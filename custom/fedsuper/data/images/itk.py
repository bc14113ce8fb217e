"""NRRD and MetaImage through SimpleITK (extra `formats`): headers held against the limits first, geometry in RAS."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsuper.data.images.decoding import FORMATS_EXTRA, MAX_BYTES, check_size, decoding, needed
from fedsuper.data.problems import DataProblem

READERS = {".nrrd": "NrrdImageIO", ".mha": "MetaImageIO", ".mhd": "MetaImageIO"}
LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])  # ITK and DICOM count to the left and back, NIfTI the other way
HEADER_LIMIT, BLOCK = 2**16, 2**20
PACKED = re.compile(rb"^CompressedData\s*=\s*True", re.IGNORECASE | re.MULTILINE)
PACKED_SIZE = re.compile(rb"^CompressedDataSize\s*=\s*[1-9]", re.IGNORECASE | re.MULTILINE)
ITK_NOISE = re.compile(r"^.*ERROR:\s*(?:\w+\((?:0x)?[0-9a-f]+\):)?", re.DOTALL)
DATA_FILE = re.compile(rb"^(?:ElementDataFile\s*=|data ?file:)[ \t]*([^\r\n]+)", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class ItkVolume:
    """Voxels `[X, Y, Z, C]` and their affine to RAS millimeters, `placed` where the file says so itself."""

    voxels: NDArray[Any]
    affine: NDArray[np.float64]
    placed: bool


def read_itk(path: Path) -> ItkVolume:
    """The volume in a `.nrrd`, `.mha` or `.mhd` file (with its voxel file beside it)."""
    itk = needed("SimpleITK", path, FORMATS_EXTRA)
    with decoding(path), _plain_words():
        _check_packed(path)
        itk.ProcessObject.SetGlobalWarningDisplay(False)
        reader = itk.ImageFileReader()
        reader.SetFileName(str(path))
        reader.SetImageIO(READERS[path.suffix.lower()])
        reader.ReadImageInformation()
        axes, channels = reader.GetDimension(), reader.GetNumberOfComponents()
        if axes not in (2, 3):
            raise DataProblem(path, f"has {axes} axes", "save one volume per file")
        check_size(path, (*reader.GetSize(), channels), 8)
        image = reader.Execute()
        voxels = itk.GetArrayFromImage(image).reshape(*reversed((*reader.GetSize(), 1)[:3]), channels)
        placed = path.suffix.lower() != ".nrrd" or reader.HasMetaDataKey("NRRD_space")
        return ItkVolume(voxels.transpose(2, 1, 0, 3), _affine(image, axes), placed)


@contextmanager
def _plain_words() -> Iterator[None]:
    """What went wrong in ITK, without the source lines and addresses it is wrapped in."""
    try:
        yield
    except RuntimeError as error:
        raise ValueError(ITK_NOISE.sub("", str(error)).strip() or "ITK cannot read it") from error


def _check_packed(path: Path) -> None:
    """Unpack a compressed MetaImage once, block by block, to its checksum: ITK takes a damaged one for voxels."""
    voxels = data_file(path)
    with path.open("rb") as file:
        head = file.read(HEADER_LIMIT)
    if path.suffix.lower() == ".nrrd" or not PACKED.search(head):
        return
    last = DATA_FILE.search(head)
    if last is None or not PACKED_SIZE.search(head):
        raise DataProblem(path, "is compressed but does not say how long its voxels are", "save it again")
    stream = zlib.decompressobj()
    with (voxels or path).open("rb") as file:
        file.seek(0 if voxels else head.index(b"\n", last.start()) + 1)
        left, more = MAX_BYTES, file.read(BLOCK)
        while more and not stream.eof and left > 0:
            left -= len(stream.decompress(more, BLOCK))
            more = stream.unconsumed_tail or file.read(BLOCK)
    if not stream.eof:
        raise ValueError("its compressed voxels end too early or never")


def data_file(path: Path) -> Path | None:
    """The file beside a header that holds its voxels, None where the header's own file does.

    A header could name any file of the machine; only a neighbor is taken.
    """
    with path.open("rb") as file:
        match = DATA_FILE.search(file.read(HEADER_LIMIT).partition(b"\n\n")[0])
    name = match[1].strip().decode("utf-8", "replace") if match else "LOCAL"
    if name.upper() == "LOCAL":
        return None
    if Path(name).name != name or name.split()[0].upper() == "LIST" or "%" in name:
        what = f"names its voxels {name!r}, not one file beside it"
        raise DataProblem(path, what, "put header and voxels in one folder, or save one .mha or .nrrd file")
    if not (path.parent / name).is_file():
        raise DataProblem(path, f"its voxel file {name} is missing", "put it beside the header")
    return path.parent / name


def _affine(image: Any, axes: int) -> NDArray[np.float64]:
    affine = np.eye(4)
    affine[:axes, :axes] = np.reshape(image.GetDirection(), (axes, axes)) * np.array(image.GetSpacing())
    affine[:axes, 3] = image.GetOrigin()
    return LPS_TO_RAS @ affine
