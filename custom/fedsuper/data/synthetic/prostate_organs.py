"""The organs of the synthetic pelvis: gland with its zones, bladder, seminal vesicles, rectum, muscles of the floor."""

from __future__ import annotations

import numpy as np

from fedsuper.data.synthetic.prostate_anatomy import PELVIS, Field, Grid, Painting, ellipse
from fedsuper.data.synthetic.prostate_patient import (
    CAPSULE,
    CORTEX,
    FAT,
    GAS,
    MUSCLE,
    PERIPHERAL,
    STROMA,
    TRANSITION,
    URINE,
    VESICLE,
    WALL,
    Patient,
)

RECTAL_WALL = 3.2


def draw_pelvis(grid: Grid, patient: Patient, rng: np.random.Generator) -> tuple[Field, Field]:
    """Signal, and millimeters inside the gland (negative outside), on `grid`."""
    painting = Painting.blank(grid, patient, rng)
    _fossa(painting)
    for part in PELVIS:
        painting.part(part)
    _skin(painting)
    middle = painting.window(0, 0, 40, 78)
    for organ in (_floor, _rectum, _bladder, _vesicles, _below_the_apex):
        organ(middle)
    _zones(painting.window(0, 0, 1.4 * patient.half_width, 1.4 * patient.half_depth), rng)
    return np.clip(painting.signal, 0, None), _gland(painting)


def _height(painting: Painting) -> Field:
    """-1 at the apex of the gland, 1 at its base."""
    return painting.z / np.float32(painting.patient.half_height)


def _gland(painting: Painting) -> Field:
    """A chestnut: broad at the base, narrow at the apex, wider behind, with a groove in the middle of its back."""
    patient, t = painting.patient, _height(painting)
    size = np.maximum(1 - np.abs(t) ** 2.4, 0) ** np.float32(0.5) * (1 + 0.14 * t)
    back = painting.y / np.float32(patient.half_depth)
    across = patient.half_width * size * (1 + 0.10 * np.clip(back, -1, 1))
    inside = ellipse(painting.x, painting.y, across, patient.half_depth * size, 0.25)
    groove = 2.2 * np.exp(-((painting.x / 6) ** 2)) * np.clip(back, 0, 1)
    gland = np.where(np.abs(t) < 1, inside - groove, np.float32(-9)).astype(np.float32)
    return gland


def _zones(painting: Painting, rng: np.random.Generator) -> None:
    """Bright peripheral zone, mottled transition zone with nodules, dark stroma in front, urethra, capsule."""
    patient, t, gland = painting.patient, _height(painting), _gland(painting)
    width, depth = patient.half_width, patient.half_depth
    painting.paint(gland + 4.5, FAT * 0.62 * (1 + 0.35 * painting.fine), 0.75)  # veins and nerves around it
    painting.paint(gland + 1.1, CAPSULE)
    painting.paint(gland, PERIPHERAL * (1 + 0.16 * painting.fine + 0.08 * painting.coarse))
    grown = 0.56 + 0.26 * patient.hyperplasia
    size = np.clip(0.35 + 0.75 * (t + 1), 0, 1) * np.maximum(1 - np.clip(t, 0, 1) ** 4, 0) ** np.float32(0.5)
    forward = painting.y + np.float32(depth * (0.34 - 0.22 * patient.hyperplasia))
    inner = np.minimum(
        ellipse(painting.x, forward, width * grown * size, depth * grown * 1.08 * size, 0.15), gland - 0.5
    )
    painting.paint(inner + 0.9, CAPSULE * 1.3)
    painting.paint(inner, TRANSITION * (1 + 0.22 * painting.coarse + 0.16 * painting.fine))
    for _ in range(int(3 + 9 * patient.hyperplasia)):
        place = [rng.uniform(-0.75, 0.75) * reach for reach in (width * grown, depth * grown, patient.half_height)]
        radius = rng.uniform(2.5, 4.0 + 5.5 * patient.hyperplasia)
        flat = ellipse(painting.x - place[0], forward - place[1], radius, radius * rng.uniform(0.7, 1.1))
        nodule = np.minimum(flat - 0.5 * np.abs(painting.z - place[2]), inner)
        painting.paint(nodule + 0.7, CAPSULE * 1.4, 0.8)
        painting.paint(nodule, rng.uniform(0.22, 0.78) * (1 + 0.25 * painting.fine), 0.9)
    front = ellipse(
        painting.x, painting.y + depth * 0.95 * np.sqrt(np.maximum(1 - t**2, 0.1)), 0.55 * width, 0.42 * depth
    )
    painting.paint(np.minimum(front, gland - 0.2), STROMA * (1 + 0.2 * painting.fine), 0.9)
    urethra = np.minimum(ellipse(painting.x, painting.y - 1.0, 2.6, 2.2), gland)
    painting.paint(urethra, 0.62, 0.8)
    if patient.tumor:
        side = 1 if rng.random() < 0.5 else -1
        x, y, height = side * rng.uniform(0.4, 0.75) * width, rng.uniform(0.35, 0.7) * depth, rng.uniform(-0.5, 0.4)
        spot = ellipse(painting.x - x, painting.y - y, rng.uniform(4, 7), rng.uniform(3, 5))
        spot = np.minimum(spot - 5 * np.abs(t - height), gland - 0.3)
        painting.paint(spot, 0.26 * (1 + 0.15 * painting.fine), 0.85)


def _skin(painting: Painting) -> None:
    """The belly's curve, with air in front of it."""
    front = painting.y + np.float32(104 * painting.patient.stature) - 0.0016 * painting.x**2
    painting.paint(1.6 - np.abs(front), 0.25)
    painting.paint(-front - 1.6, GAS)


def _sling(painting: Painting) -> Field:
    """How far from the midline the levator ani runs: along the gland, then inwards to meet behind the rectum."""
    behind = np.sqrt(np.clip((64 - painting.y) / 58, 0, 1))
    along = np.minimum(27 + 0.08 * np.minimum(painting.y, 0), 27 * behind)
    return np.asarray(along * np.float32(painting.patient.stature))


def _fossa(painting: Painting) -> None:
    """The bright fat on both sides of the anal canal."""
    fossa = np.minimum(np.abs(painting.x) - _sling(painting), painting.y - 20)
    painting.paint(fossa, FAT * 1.12 * (1 + 0.05 * painting.fine + 0.03 * painting.coarse))


def _floor(painting: Painting) -> None:
    """Levator ani, two thin slings that end in front beside the gland, and the looser fat between them."""
    aside, sling = np.abs(painting.x), _sling(painting)
    reach = np.minimum(painting.y + 24, 64 - painting.y) / 10
    inside = np.minimum(sling - aside, 6 * reach)
    painting.paint(inside, FAT * 0.74 * (1 + 0.14 * painting.fine + 0.14 * painting.coarse), 0.85)
    painting.paint(1.7 * np.minimum(reach, 1) - np.abs(aside - sling), MUSCLE * 1.1, 0.9)


def _rectum(painting: Painting) -> None:
    """A tube behind the gland: wall, then gas or stool, or the balloon of an endorectal coil."""
    patient, t = painting.patient, _height(painting)
    radius = patient.rectum * np.clip(1.02 + 0.22 * t, 0.62, 1.15)
    deep = radius * (0.78 if patient.balloon else 0.90)
    behind = patient.half_depth * 0.93 + RECTAL_WALL + deep + 3.5 * np.clip(-t - 0.6, 0, 1)
    tube = ellipse(painting.x, painting.y - behind, radius, deep, 0.15)
    painting.paint(tube + RECTAL_WALL, WALL * 1.25 * (1 + 0.15 * painting.fine))
    if patient.balloon:
        painting.paint(tube, GAS)
        painting.paint(1.0 - np.abs(ellipse(painting.x, painting.y - behind, 4, 4)), 0.12)
        return
    painting.paint(tube + 0.8, WALL * 2.4)
    stool = np.clip(0.30 + 0.22 * painting.coarse + 0.10 * painting.fine, 0.04, 0.8)
    painting.paint(tube, GAS + 0.02 if patient.gas else stool)
    if patient.gas:
        painting.paint(np.minimum(tube, painting.y - behind - 0.45 * deep), stool)


def _bladder(painting: Painting) -> None:
    """Urine above and in front of the gland, in a dark wall."""
    patient, t = painting.patient, _height(painting)
    full = np.clip((t + 0.15) / 1.3, 0, 1) ** np.float32(0.6)
    middle = -patient.half_depth * 0.55 - 0.62 * patient.bladder * np.clip(1.25 - 0.5 * t, 0.3, 1)
    pool = ellipse(painting.x, painting.y - middle, patient.bladder * full, 0.70 * patient.bladder * full, 0.5)
    pool = np.where(full > 0.2, pool, np.float32(-9))
    painting.paint(pool + 3.4, WALL * (1 + 0.1 * painting.fine))
    painting.paint(pool, URINE)


def _vesicles(painting: Painting) -> None:
    """Seminal vesicles: bright convolutions behind the bladder, above the base."""
    t = _height(painting)
    there = np.clip((t - 0.75) / 0.2, 0, 1) * np.clip((2.2 - t) / 0.3, 0, 1)
    bow = painting.y - painting.patient.half_depth * 0.62 + 0.006 * painting.x**2
    lobes = np.minimum(ellipse(np.abs(painting.x) - 15, bow, 14 * there, 5.5 * there), 9.0)
    lobes = np.where(there > 0.2, lobes, np.float32(-9))
    painting.paint(lobes + 0.8, WALL)
    painting.paint(lobes, np.clip(VESICLE * (1 + 0.45 * painting.fine), 0.15, 1.1), 0.95)


def _below_the_apex(painting: Painting) -> None:
    """The urethra in its sphincter, where the gland has ended, and the joint line between the pubic bodies."""
    t = _height(painting)
    ended = np.clip((-0.95 - t) / 0.15, 0, 1)
    tube = np.where(ended > 0, ellipse(painting.x, painting.y + 1, 9.0 * ended, 8.0 * ended), np.float32(-9))
    painting.paint(tube, MUSCLE * 2.0)
    painting.paint(tube - 3.5, 0.5)
    painting.paint(tube - 5.5, 0.2)
    low = np.clip((-painting.z - 12) / 6, 0, 1)
    joint = np.where(low > 0, np.minimum(1.4 - np.abs(painting.x), 17 - np.abs(painting.y + 42)), np.float32(-9))
    painting.paint(joint, CORTEX, 0.9)
