"""How a stack of slices sits in a file's own voxel grid.

The network sees slices `[Z, H, W]`. A NIfTI file stores voxels in any axis order and direction, at any angle to the
patient. `SliceFrame` records which file axis became Z, H and W and which of them were reversed; both ways are pure
re-indexing, so nothing is interpolated and no voxel is lost.

The slice axis is the axis of largest spacing, the one a scanner acquires slice by slice. Axes within 5 % of the largest
count as tied, and the last of them in (left-right, back-front, foot-head) order wins, so an isotropic volume is cut
axially. An axis of length one beats them all: a single slice is a slice, whatever its header says of its thickness.
Slices are shown as radiologists read them: patient right on the left, front (axial) or head (coronal, sagittal) on top.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from fedsuper.data.problems import DataProblem

TIE = 0.95
GRID_TOLERANCE = 0.1  # voxels by which the corners of two equal grids may differ (headers are rounded)


@dataclass(frozen=True)
class SliceFrame:
    """The file axis behind each of Z, H, W, and whether it is reversed."""

    axes: tuple[int, int, int] = (2, 0, 1)
    flips: tuple[bool, bool, bool] = (False, False, False)

    @property
    def _reversed(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(3) if self.flips[axis])

    def to_slices(self, volume: np.ndarray) -> np.ndarray:
        """`[Z, H, W, ...]` from a volume in the file's axis order (axes after the third stay last)."""
        stack = np.transpose(volume, (*self.axes, *range(3, volume.ndim)))
        return np.flip(stack, self._reversed)

    def to_file(self, stack: np.ndarray) -> np.ndarray:
        """The inverse of `to_slices`."""
        volume = np.flip(stack, self._reversed)
        return np.transpose(volume, (*np.argsort(self.axes), *range(3, stack.ndim)))

    def affine(self, affine: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """The affine of slice indices (z, h, w, 1), given the file's affine and spatial shape."""
        index = np.zeros((4, 4))
        index[3, 3] = 1
        for axis, (source, flip) in enumerate(zip(self.axes, self.flips, strict=True)):
            index[source, axis] = -1 if flip else 1
            index[source, 3] = shape[source] - 1 if flip else 0
        return affine @ index

    def spacing(self, affine: np.ndarray) -> tuple[float, float, float]:
        """Millimeters between neighbors along Z, H and W."""
        sizes = np.linalg.norm(affine[:3, :3], axis=0)
        return (float(sizes[self.axes[0]]), float(sizes[self.axes[1]]), float(sizes[self.axes[2]]))


def slice_frame(affine: np.ndarray, shape: tuple[int, ...], slice_world_axis: int | None = None) -> SliceFrame:
    """The frame of a volume whose affine maps voxel indices to RAS+ millimeters."""
    from nibabel.orientations import io_orientation

    if not np.isfinite(affine).all() or abs(np.linalg.det(affine[:3, :3])) < 1e-12:
        raise ValueError("its affine is singular or not finite, so voxels have no place")
    orientation = io_orientation(affine)  # per file axis: the nearest world axis and the sense along it
    file_axis = {int(world): axis for axis, (world, _) in enumerate(orientation)}
    forward = {int(world): sense > 0 for world, sense in orientation}
    cut = choose_slice_axis(affine, shape) if slice_world_axis is None else slice_world_axis
    rows, columns = (world for world in (2, 1, 0) if world != cut)
    return SliceFrame(
        axes=(file_axis[cut], file_axis[rows], file_axis[columns]),
        flips=(not forward[cut], forward[rows], forward[columns]),
    )


def frame_of(path: Path, affine: np.ndarray, shape: tuple[int, ...]) -> SliceFrame:
    """The frame of the volume in `path`, or one line on its header."""
    try:
        return slice_frame(affine, shape)
    except ValueError as error:
        raise DataProblem(path, str(error), "fix its header (sform, qform or direction) or export it again") from None


def choose_slice_axis(affine: np.ndarray, shape: tuple[int, ...]) -> int:
    """The world axis (0 left-right, 1 back-front, 2 foot-head) along which to cut; the rule is in the module's text."""
    from nibabel.orientations import io_orientation

    world_of = [int(world) for world, _ in io_orientation(affine)]
    singles = [axis for axis in range(3) if shape[axis] == 1]
    if len(singles) == 1:
        return world_of[singles[0]]
    sizes = np.linalg.norm(affine[:3, :3], axis=0)
    return max(world_of[axis] for axis in range(3) if sizes[axis] >= TIE * sizes.max())


def grid_offset(first: np.ndarray, second: np.ndarray, shape: tuple[int, ...]) -> float:
    """How far, in voxels of `first`, the eight corners of one grid lie apart under two affines at most."""
    corners = np.array([(*corner, 1) for corner in product(*((0, length - 1) for length in shape[:3]))], dtype=float)
    apart = np.linalg.norm((corners @ (first - second).T)[:, :3], axis=1).max()
    return float(apart / np.linalg.norm(first[:3, :3], axis=0).min())
