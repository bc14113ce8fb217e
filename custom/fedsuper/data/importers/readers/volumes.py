"""Volumes and their labels: reading with the place in space kept, merging label values, writing NIfTI."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsuper.data.images import itk
from fedsuper.data.images import nifti as nifti_files
from fedsuper.data.importers.base import Entry, Kept, Made, Pair, Survey, UnusableCaseError
from fedsuper.data.layout import suffix_of

NIFTI = (".nii.gz", ".nii")
SAME_PLACE = 1e-2  # mm, or the like in direction times spacing


@dataclass(frozen=True)
class Volume:
    """Voxels and where they are: `affine` takes voxel indices to millimeters (RAS), None where a file does not say.

    `original` is the NIfTI file the voxels came from, where they are that file's, unchanged.
    """

    voxels: NDArray[Any]
    affine: NDArray[np.float64] | None
    original: Path | None = None


def read_nifti(path: Path, channel: int | None = None) -> Volume:
    """A NIfTI volume, or one `channel` of a file that has several; every byte is read, so a torn file is found here."""
    source = nifti_files.load_nifti(path)
    affine = np.asarray(source.affine, dtype=np.float64)
    voxels = nifti_files.voxels_of(path, source)
    channels = voxels.shape[3]
    if channels > 1 and channel is None:
        raise UnusableCaseError(f"{path.name} has {channels} channels, one is needed")
    return Volume(voxels[..., channel or 0], affine, path if len(source.shape) == 3 else None)


def read_itk(path: Path) -> Volume:
    """A NRRD or MetaImage volume of one channel; without an affine where the file does not say where it lies."""
    read = itk.read_itk(path)
    if read.voxels.shape[3] != 1:
        raise UnusableCaseError(f"{path.name} has {read.voxels.shape[3]} channels, one is needed")
    return Volume(read.voxels[..., 0], read.affine if read.placed else None)


def merged(label: Volume, allowed: tuple[int, ...] | None, name: str) -> Volume:
    """The whole gland of a label: 1 wherever it is not 0. Values besides `allowed` mean that it is another label."""
    values = np.unique(label.voxels)
    if not np.isfinite(values).all() or (allowed is not None and not np.isin(values, allowed).all()):
        shown = ", ".join(f"{value:g}" for value in values[:6])
        raise UnusableCaseError(f"the label should hold {', '.join(map(str, allowed or ()))}; {name} holds {shown}")
    if values[-1] == 0:
        raise UnusableCaseError(f"the label {name} is empty")
    plain = label.original is not None and label.voxels.dtype.kind in "iu" and values[-1] == 1
    return label if plain else Volume((label.voxels != 0).astype(np.uint8), label.affine)


def onto_grid(label: Volume, image: Volume) -> Volume:
    """The label on the image's voxels, with the image's affine.

    A label in the image's place, or one whose file says nothing of its place, must have the image's shape and is
    taken voxel for voxel. Otherwise each image voxel takes the label at its own place, nearest neighbor; a gland
    that does not fit into the image is refused.
    """
    if image.affine is None or _same_place(label.affine, image.affine):
        if label.voxels.shape != image.voxels.shape:
            raise UnusableCaseError(f"the image has {_shape(image)} voxels, its label {_shape(label)}")
        equal = label.affine is not None and image.affine is not None and np.allclose(label.affine, image.affine)
        return label if equal else Volume(label.voxels, image.affine)
    assert label.affine is not None
    to_label = np.linalg.inv(label.affine) @ image.affine
    grid = np.indices(image.voxels.shape).reshape(3, -1)
    index = np.rint(to_label[:3, :3] @ grid + to_label[:3, 3:]).astype(np.int64)
    inside = ((index >= 0) & (index < np.array(label.voxels.shape)[:, None])).all(axis=0)
    moved = np.zeros(inside.size, dtype=np.uint8)
    moved[inside] = label.voxels[tuple(index[:, inside])]
    voxel_ratio = abs(np.linalg.det(label.affine[:3, :3]) / np.linalg.det(image.affine[:3, :3]))
    if not 0.8 <= moved.sum(dtype=float) / (label.voxels.sum(dtype=float) * voxel_ratio) <= 1.25:
        raise UnusableCaseError("the image and its label do not lie in the same place")
    return Volume(moved.reshape(image.voxels.shape), image.affine)


def _same_place(label: NDArray[np.float64] | None, image: NDArray[np.float64]) -> bool:
    if label is None or np.allclose(label, image, atol=SAME_PLACE):
        return True
    return np.allclose(np.abs(label[:3, :3]), np.eye(3))  # steps of 1 along the axes: what a lost header leaves behind


def nifti(volume: Volume) -> Kept | Made:
    """The volume's own file where it is one already, else a new `.nii.gz`."""
    if volume.original is not None:
        return Kept(volume.original, suffix_of(volume.original, NIFTI) or ".nii.gz")
    affine = np.eye(4) if volume.affine is None else volume.affine

    return Made(".nii.gz", lambda path: nifti_files.write_volume(path, volume.voxels, affine))


def volume_pair(
    read_image: Callable[[], Volume], read_label: Callable[[], Volume], name: str, allowed: tuple[int, ...] | None
) -> Pair:
    """Image and whole-gland label on one grid, with one affine."""
    image = read_image()
    return Pair(nifti(image), nifti(onto_grid(merged(read_label(), allowed, name), image)))


def volume_entry(
    name: str,
    read_image: Callable[[], Volume],
    read_label: Callable[[], Volume],
    label_name: str,
    allowed: tuple[int, ...] | None = (0, 1),
    case: str | None = None,
) -> Entry:
    """One volume of a set; its patient is `case`, by default the volume's own name."""
    return Entry(name, lambda: volume_pair(read_image, read_label, label_name, allowed), case or name)


def pair_nifti(
    found: Survey,
    images: dict[str, Path],
    labels: dict[str, Path],
    allowed: tuple[int, ...],
    channel: int | None = None,
    prefix: str = "",
) -> None:
    """Add every NIfTI image of `images` with the label of the same name."""
    for name, image in sorted(images.items()):
        label = labels.get(name)
        if label is None:
            found.skip(prefix + name, f"no label for {image.name}")
            continue
        found.entries.append(volume_entry(prefix + name, _later(image, channel), _later(label), label.name, allowed))


def _later(path: Path, channel: int | None = None) -> Callable[[], Volume]:
    return lambda: read_nifti(path, channel)


def _shape(volume: Volume) -> str:
    return "x".join(str(length) for length in volume.voxels.shape)
