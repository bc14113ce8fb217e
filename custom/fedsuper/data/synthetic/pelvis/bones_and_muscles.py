"""Painting what holds the organs: fat with its strands, streaky muscles, mottled bones, vessels, skin and air."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedsuper.data.synthetic.pelvis.body import Body
from fedsuper.data.synthetic.pelvis.cross_sections import STRUCTURES, Structure
from fedsuper.data.synthetic.prostate_anatomy import Field, Painting, ellipse, span
from fedsuper.data.synthetic.prostate_patient import CORTEX, FAT, GAS, MARROW

SMALLEST = 2.0  # half-axis, in millimeters, below which nothing is painted
REACH = 64  # to both sides of a muscle, in millimeters: as far as its fibers are drawn
STRAND = 0.22  # how wide strands are, in spreads of the noise whose zeros they follow
HALF_WIDTH, BEYOND = 130.0, 40.0  # of a picture, and how far it may show air before or behind the skin
VARIES = 0.12  # share of its size by which a structure varies from man to man


def paired(structure: Structure) -> bool:
    """Whether it lies beside the midline, and so on both sides."""
    return structure.frames[0][1] > 0


def paint_fat(painting: Painting, body: Body) -> None:
    """Bright fat, crossed by the thin dark strands where smooth noise passes through zero."""
    strands = np.exp(-((painting.coarse / np.float32(STRAND)) ** 2)) * np.clip(0.6 + 0.4 * painting.fine, 0, 1.5)
    fat = FAT * body.fat * (1 + 0.05 * painting.fine - 0.40 * body.septa * strands)
    painting.signal[...] = np.clip(fat, 0.05, 1.2)


def paint_frame(painting: Painting, body: Body, stature: float, rng: np.random.Generator) -> None:
    """Bones, muscles and vessels at the level of each slice, no two men's alike, nor the two sides of one."""
    for structure in STRUCTURES:
        own = _Own.draw(structure, body, rng)
        for side in (1, -1) if paired(structure) else (1,):
            _paint(painting, body, structure, own, side, stature, rng)


@dataclass(frozen=True)
class _Own:
    """How a structure of one man differs from the atlas."""

    x: float
    y: float
    size: float
    turn: float
    brightness: float

    @classmethod
    def draw(cls, structure: Structure, body: Body, rng: np.random.Generator) -> _Own:
        x, y = rng.standard_normal(2) * structure.sway
        size = math.exp(rng.normal(0, VARIES)) * (body.bulk if structure.fibers else 1.0)
        bright = body.marrow if structure.signal >= MARROW else math.exp(rng.normal(0, 0.15))
        return cls(float(x), float(y), size, rng.normal(0, 0.06), bright)


def _paint(
    painting: Painting,
    body: Body,
    structure: Structure,
    own: _Own,
    side: int,
    stature: float,
    rng: np.random.Generator,
) -> None:
    jolt = rng.standard_normal(3) * np.array([1.2, 1.2, 0.03])
    fibers = rng.standard_normal(REACH, dtype=np.float32)
    middle = float(np.mean([frame[2] for frame in structure.frames]))
    levels = painting.z.ravel() + np.float32(body.level + body.pitch * middle)
    there = span(structure.at(levels)[2].ravel() > SMALLEST)
    x, y, across, deep, turn = structure.at(levels[there])
    if not len(x):
        return
    scale, size = np.float32(stature), np.float32(own.size * stature)
    x = (x + np.float32(own.x if paired(structure) else 0)) * scale + np.float32(jolt[0] + side * body.aside)
    y = (y + np.float32(own.y)) * scale + np.float32(jolt[1] + body.behind)
    across, deep, turn = across * size, deep * size, turn + np.float32(own.turn + jolt[2])
    cosine, sine = np.cos(turn), np.sin(turn)
    wide, tall = (np.hypot(across * u, deep * v) for u, v in ((cosine, sine), (sine, cosine)))
    reach = [float((np.ptp(at) / 2 + half.max()) + structure.rim) for at, half in ((x, wide), (y, tall))]
    view = painting.window(side * _middle(x), _middle(y), reach[0], reach[1], there)
    if not view.signal.size:
        return
    aside, down = side * view.x - x, view.y - y
    along, thwart = aside * cosine + down * sine, down * cosine - aside * sine
    inside = ellipse(along, thwart, across, deep, structure.square)
    if structure.rim:
        view.paint(inside + structure.rim, CORTEX * 2, 0.9)
    texture = 1 + structure.grain / 2 * (view.fine + view.coarse)
    signal = structure.signal * own.brightness * np.maximum(texture, 0.2)
    if structure.fibers and body.streaks:
        over = thwart if across.max() > deep.max() else along
        streak = _streaks(over + 0.8 * view.coarse, fibers) * (structure.fibers * body.streaks)
        signal = signal + np.clip(streak + 0.1 * view.fine * streak, 0, 0.8) * (FAT - signal)
    view.paint(inside, signal)


def _middle(places: Field) -> float:
    return float(places.max() + places.min()) / 2


def _streaks(over: Field, fibers: Field) -> Field:
    """0..1 where fat runs between a muscle's bundles, a function of the place across them."""
    place = np.clip(over + REACH / 2, 0, REACH - 1.001)
    before = place.astype(np.int32)
    share = place - before.astype(np.float32)
    between = fibers[before] * (1 - share) + fibers[before + 1] * share
    return np.asarray(np.clip(0.55 * between - 0.12, 0, 1))


def paint_skin(painting: Painting, body: Body) -> None:
    """The curves of belly and back, with air beyond."""
    for edge, front in ((body.front, 1), (body.back, -1)):
        curve = body.roundness * HALF_WIDTH**2
        view = painting.window(0, -front * (edge + BEYOND), HALF_WIDTH, BEYOND + curve)
        inside = front * view.y + np.float32(edge) - np.float32(body.roundness) * view.x**2
        view.paint(1.4 - np.abs(inside), 0.25)
        view.paint(-inside - 1.4, GAS)
