"""Small images, masks and volumes of known content, in the formats that public sets come in."""

from __future__ import annotations

import gzip
from pathlib import Path

import nibabel as nib
import numpy as np
from PIL import Image

SIZE = 64
SHAPE = (20, 24, 6)
AFFINE = np.array([[-0.6, 0, 0, 10], [0, 0.6, 0, -20], [0, 0, 3.0, 5], [0, 0, 0, 1.0]])


def photograph(seed: int, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(seed).integers(90, 130, (size, size, 3)).astype(np.uint8)


def circle(radius: float, size: int = SIZE, center: tuple[float, float] = (0.5, 0.5)) -> np.ndarray:
    rows, columns = np.mgrid[:size, :size]
    return np.hypot(rows - center[0] * size, columns - center[1] * size) < radius


def save(path: Path, pixels: np.ndarray, **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def volume(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 900, SHAPE).astype(np.int16)


def gland(values: tuple[int, ...] = (1,)) -> np.ndarray:
    """A block off center, split into the given values, so that flips and turns show."""
    label = np.zeros(SHAPE, np.uint8)
    for value, rows in zip(values, np.array_split(np.arange(5, 12), len(values)), strict=True):
        label[rows, 8:18, 1:4] = value
    return label


def save_nifti(path: Path, voxels: np.ndarray, affine: np.ndarray = AFFINE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(voxels, affine), path)
    return path


def save_metaimage(path: Path, voxels: np.ndarray, affine: np.ndarray = AFFINE) -> Path:
    """Write the header and voxel file a scanner's ITK pipeline would, from a RAS affine; returns the voxel file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lps = np.diag([-1, -1, 1, 1]) @ affine
    spacing = np.linalg.norm(lps[:3, :3], axis=0)
    directions = (lps[:3, :3] / spacing).T
    kinds = {np.dtype(np.int16): "MET_SHORT", np.dtype(np.uint8): "MET_UCHAR"}
    path.write_text(
        "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\nCompressedData = False\n"
        f"TransformMatrix = {' '.join(f'{value:.9g}' for value in directions.ravel())}\n"
        f"Offset = {' '.join(f'{value:.9g}' for value in lps[:3, 3])}\nCenterOfRotation = 0 0 0\n"
        f"AnatomicalOrientation = RAI\nElementSpacing = {' '.join(f'{value:.9g}' for value in spacing)}\n"
        f"DimSize = {' '.join(map(str, voxels.shape))}\nElementType = {kinds[voxels.dtype]}\n"
        f"ElementDataFile = {path.stem}.raw\n"
    )
    raw = path.with_suffix(".raw")
    raw.write_bytes(voxels.tobytes(order="F"))
    return raw


def save_nrrd(path: Path, voxels: np.ndarray, affine: np.ndarray | None = AFFINE, encoding: str = "gzip") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["NRRD0004", "# made for a test", "type: unsigned char", "dimension: 3"]
    if affine is not None:
        lps = np.diag([-1, -1, 1, 1]) @ affine
        columns = " ".join(f"({','.join(f'{value:.9g}' for value in column)})" for column in lps[:3, :3].T)
        origin = ",".join(f"{value:.9g}" for value in lps[:3, 3])
        lines += ["space: left-posterior-superior", f"space directions: {columns}", f"space origin: ({origin})"]
    lines += [f"sizes: {' '.join(map(str, voxels.shape))}", "endian: little", f"encoding: {encoding}"]
    data = voxels.astype(np.uint8).tobytes(order="F")
    path.write_bytes("\n".join(lines).encode() + b"\n\n" + (gzip.compress(data) if encoding == "gzip" else data))
    return path


def gray_levels(disc: float, cup: float) -> np.ndarray:
    return np.where(circle(cup), 0, np.where(circle(disc), 128, 255)).astype(np.uint8)


def drawing(base: np.ndarray, radii: tuple[float, ...], gap: int = 0) -> np.ndarray:
    """A rater's copy of a photograph with a closed (or, with `gap`, broken) line at each radius."""
    drawn = base.copy()
    rows = np.mgrid[: base.shape[0], : base.shape[1]][0]
    for radius in radii:
        line = circle(radius, len(base)) & ~circle(radius - 1.6, len(base))
        if gap:
            line &= ~(
                (np.abs(rows - len(base) / 2) < gap / 2) & (np.mgrid[: len(base), : len(base)][1] > len(base) / 2)
            )
        drawn[line] = (0, 0, 255)
    return drawn
