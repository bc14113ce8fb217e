"""The male pelvis around the prostate in axial T2 contrast: one made-up patient, as signal and gland in any grid.

Lengths are millimeters from the middle of the gland: x to the patient's left (the right of a picture), y to the back
(down), z to the head. Signal is relative: 0 is air or cortical bone, 1 is urine. Everything is a blob, a function that
is positive inside and falls about one per millimeter, painted over what lies behind it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsuper.data.synthetic.prostate_patient import CORTEX, FAT, FLOW, MARROW, MUSCLE, Patient

Field = NDArray[np.floating[Any]]  # float32 throughout
EVERY_SLICE = slice(None)
BEND = 1.6  # millimeters by which organs stray from their plain shapes


@dataclass(frozen=True)
class Part:
    """An ellipsoid of the pelvis. Those beside the midline are there twice, mirrored."""

    x: float
    y: float
    z: float
    across: float  # half-axes
    deep: float
    high: float
    signal: float
    turn: float = 0.0  # degrees, lower end outwards
    rim: float = 0.0  # width of a cortical or fascial rim
    grain: float = 0.15
    square: float = 0.3


# Back to front as they are painted.
PELVIS = (
    Part(82, 4, -20, 40, 58, 110, MUSCLE, turn=-6, grain=0.6),  # muscles around the hip
    Part(0, -82, 0, 30, 7, 60, MUSCLE, grain=0.5),  # rectus
    Part(45, -54, -6, 25, 8, 44, MUSCLE, turn=14, rim=0.8, grain=0.4),  # pectineus
    Part(66, 26, 12, 16, 30, 46, MARROW, turn=-16, rim=1.6),  # ischium
    Part(57, -28, 20, 17, 17, 34, MARROW, turn=10, rim=1.4),  # pubis, anterior column
    Part(92, -10, 22, 27, 27, 40, MARROW * 1.25, rim=1.9, grain=0.10, square=0.0),  # femoral head
    Part(70, 42, -28, 14, 18, 26, MARROW, turn=-20, rim=2.2),  # ischial tuberosity
    Part(15, -42, -30, 14, 17, 24, MARROW, turn=8, rim=1.3, square=0.6),  # pubic bodies beside the symphysis
    Part(56, -14, -34, 32, 12, 22, MUSCLE, turn=-38, rim=0.5, grain=0.6),  # obturator externus
    Part(43, 14, 4, 9, 44, 52, MUSCLE, turn=-8, grain=0.25),  # obturator internus
    Part(66, 80, 0, 56, 18, 90, MUSCLE, turn=-14, grain=0.8),  # gluteus
    Part(0, 66, 6, 4, 9, 30, MUSCLE * 1.6, grain=0.3),  # anococcygeal body
    Part(70, -68, 0, 6, 6, 90, FLOW, rim=0.6, grain=0.0, square=0.0),  # femoral vein
    Part(83, -73, 0, 5.5, 5.5, 90, FLOW, rim=0.6, grain=0.0, square=0.0),  # femoral artery
)
SMALLEST = 0.45  # share of its width below which an ellipsoid's end is not painted


@dataclass(frozen=True)
class Grid:
    """Voxel centers in millimeters, to be broadcast to [Z, H, W], and the width over which an edge blurs."""

    x: Field
    y: Field
    z: Field
    edge: float

    @classmethod
    def of(cls, size: int, pixel: float, slices: int, slice_step: float, blur: float = 1.0) -> Grid:
        """A grid of square slices whose middle is the middle of the gland."""
        along = ((np.arange(size) - (size - 1) / 2) * pixel).astype(np.float32)
        up = ((np.arange(slices) - (slices - 1) / 2) * slice_step).astype(np.float32)
        return cls(along[None, None, :], along[None, :, None], up[:, None, None], blur * max(0.9, 0.8 * pixel))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Slices, rows, columns."""
        return self.z.shape[0], self.y.shape[1], self.x.shape[2]

    @property
    def pixel(self) -> float:
        """Millimeters between columns."""
        return float(self.x[0, 0, 1] - self.x[0, 0, 0])


def noise_field(rng: np.random.Generator, grid: Grid, width: float, across_slices: float = 0.6) -> Field:
    """Smooth noise of mean 0 and spread 1 with grains of `width` millimeters; `across_slices` is in slices.

    Wide grains are drawn on a coarse lattice and interpolated: a plain filter would cost more the wider it is.
    """
    from scipy.ndimage import gaussian_filter

    slices, rows, columns = grid.shape
    pixels = width / grid.pixel
    coarse = max(1, int(pixels / 1.5))
    white = rng.standard_normal((slices, rows // coarse + 2, columns // coarse + 2), dtype=np.float32)
    field = gaussian_filter(white, (across_slices, pixels / coarse, pixels / coarse), mode="wrap", truncate=3.0)
    for axis, length in ((1, rows), (2, columns)):
        place = np.arange(length, dtype=np.float32) / coarse
        before = place.astype(int)
        share = (place - before).reshape((-1, 1) if axis == 1 else (-1,))
        field = field.take(before, axis) * (1 - share) + field.take(before + 1, axis) * share
    return np.asarray((field - field.mean()) / (field.std() + np.float32(1e-6)))


def ellipse(x: Field, y: Field, across: Field | float, deep: Field | float, square: float = 0.0) -> Field:
    """Millimeters inside an ellipse about the origin, negative outside; `square` (0..1) fills its corners."""
    across, deep = np.maximum(across, np.float32(0.1)), np.maximum(deep, np.float32(0.1))
    u, v = (x / across) ** 2, (y / deep) ** 2
    radius = np.sqrt(u + v)
    if square:
        radius = (1 - square) * radius + square * np.sqrt(np.sqrt(u * u + v * v))
    return (1 - radius) * np.minimum(across, deep)


def barrel(z: Field, middle: float, high: float) -> Field:
    """How wide something is at height z, from 1 in its middle to 0 at its ends, blunt as bones and organs are."""
    return np.asarray(np.maximum(1 - np.abs((z - middle) / high) ** 3, 0) ** np.float32(0.5))


@dataclass(frozen=True)
class Painting:
    """Signal being painted, back to front, on coordinates that are bent a little for each patient.

    `columns` and `rows` are the straight coordinates: they tell which part of the picture something can touch.
    """

    patient: Patient
    edge: np.float32
    columns: Field
    rows: Field
    x: Field
    y: Field
    z: Field
    fine: Field
    coarse: Field
    signal: Field
    slack: float = 4 * BEND  # millimeters by which something may lie beside its straight place

    @classmethod
    def blank(
        cls, grid: Grid, patient: Patient, rng: np.random.Generator, bend: float = BEND, grain: float = 0.9
    ) -> Painting:
        """Nothing but fat, on coordinates bent by about `bend` millimeters, with a fine texture of `grain`."""
        fine, coarse = noise_field(rng, grid, grain), noise_field(rng, grid, 4.0)
        columns = grid.x.ravel() - np.float32(patient.shift[0])
        rows = grid.y.ravel() - np.float32(patient.shift[1])
        return cls(
            patient,
            np.float32(grid.edge),
            columns,
            rows,
            columns + bend * noise_field(rng, grid, 11, 1.5),
            rows[:, None] + bend * noise_field(rng, grid, 11, 1.5),
            grid.z - np.float32(patient.shift[2]),
            fine,
            coarse,
            FAT * (1 + 0.06 * coarse + 0.05 * fine),
            4 * bend,
        )

    def window(self, x: float, y: float, across: float, deep: float, slices: slice = EVERY_SLICE) -> Painting:
        """The same painting, seen only where something `across` by `deep` around (x, y) can be."""
        columns = span(np.abs(self.columns - np.float32(x)) < across + self.slack)
        rows = span(np.abs(self.rows - np.float32(y)) < deep + self.slack)
        where = (slices, rows, columns)
        return replace(
            self,
            columns=self.columns[columns],
            rows=self.rows[rows],
            z=self.z[slices],
            **{name: getattr(self, name)[where] for name in ("x", "y", "fine", "coarse", "signal")},
        )

    def paint(self, inside: Field, signal: Field | float, strength: float = 1.0) -> None:
        """Lay `signal` where `inside` is positive."""
        cover = np.clip(inside / self.edge + np.float32(0.5), 0, 1)
        np.add(self.signal, cover * np.float32(strength) * (signal - self.signal), out=self.signal)

    def part(self, part: Part) -> None:
        """Paint one ellipsoid of the pelvis, on both sides where it is beside the midline."""
        scale = self.patient.stature
        wide = barrel(self.z, part.z, part.high * scale)
        slices = span(wide.ravel() > SMALLEST)
        wide = wide[slices] * np.float32(scale)
        cosine, sine = math.cos(math.radians(part.turn)), math.sin(math.radians(part.turn))
        reach = scale * max(part.across, part.deep) * 1.1 + part.rim
        for side in (1, -1) if part.x else (1,):
            view = self.window(side * part.x * scale, part.y * scale, reach, reach, slices)
            if not view.signal.size:
                continue
            aside, down = side * view.x - part.x * scale, view.y - part.y * scale
            along, thwart = aside * cosine + down * sine, down * cosine - aside * sine
            inside = ellipse(along, thwart, part.across * wide, part.deep * wide, part.square)
            if part.rim:
                view.paint(inside + part.rim, CORTEX * 2, 0.9)
            view.paint(inside, part.signal * np.maximum(1 + part.grain / 2 * (view.fine + view.coarse), 0.2))


def span(there: NDArray[np.bool_]) -> slice:
    """From the first to the last True, empty where there is none."""
    found = np.flatnonzero(there)
    return slice(int(found[0]), int(found[-1]) + 1) if found.size else slice(0, 0)
