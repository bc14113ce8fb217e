"""Optic discs and cups of a stack of eyes: their place, shape and borders, and the label as a hand draws them.

The plane around a disc is read as complex numbers z, 1 being the mean radius. An outline is a function of direction
u = z / |z|: 1 + sum_k Re(c_k u^k), with k from 2 on, so that it bends without moving or growing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsuper.data.synthetic.drawing import Floats, Grid
from fedsuper.data.synthetic.eye.eye_sites import CaseMix, Hand

Complexes = NDArray[np.complex64]
HARMONICS = (2, 3, 4, 5)
DISC_BEND, CUP_BEND = 0.025, 0.045  # spread of each c_k
LARGEST_CUP = 0.92  # of the disc's radius, its shift included


@dataclass(frozen=True)
class OpticDiscs:
    """One entry an eye. `crescent` is the width of the atrophy beside the disc, in radii, towards `crescent_way`."""

    x: Floats
    y: Floats
    side: Floats  # +1: the macula lies to the left of the disc, -1: to the right
    radius: Floats
    stretch: Floats
    lean: Floats
    outline: Complexes  # (eye, harmonic)
    cup_ratio: Floats
    cup_place: Complexes
    cup_outline: Complexes
    crescent: Floats
    crescent_way: Complexes

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class Around:
    """Maps (eye, row, column) around the discs: `plane` is z, `way` is u, `disc` and `cup` are 1 on the border."""

    plane: Complexes
    way: Complexes
    disc: Floats
    cup: Floats
    crescent: Floats  # width of the atrophy in this direction


def draw_discs(mix: CaseMix, count: int, rng: np.random.Generator) -> OpticDiscs:
    """Draw `count` eyes."""

    def normal(mean: float, spread: float, reach: float = 2.0) -> Floats:
        return (mean + spread * np.clip(rng.standard_normal(count), -reach, reach)).astype(np.float32)

    side = np.where(rng.random(count) < 0.5, -1, 1).astype(np.float32)
    tilted = rng.random(count) < mix.tilted
    ratio = np.clip(normal(mix.cup_ratio, mix.cup_spread), 0.2, 0.8).astype(np.float32)
    place = 0.6 * (0.85 - ratio) * (0.25 + rng.standard_normal(count) * 0.3 + 1j * 0.3 * rng.standard_normal(count))
    ill = rng.random(count) < mix.atrophy
    # Atrophy lies on the side of the macula, sometimes below.
    way = -side * np.exp(1j * side * np.clip(rng.standard_normal(count), -2, 2) * 0.6)
    return OpticDiscs(
        x=0.5 + normal(0.0, mix.disc_wander),
        y=0.5 + normal(0.0, mix.disc_wander),
        side=side,
        radius=(mix.disc_diameter / 2 * np.exp(normal(0.0, mix.disc_spread))).astype(np.float32),
        stretch=np.where(tilted, normal(1.35, 0.10), normal(1.07, 0.05)).astype(np.float32),
        lean=np.where(tilted, normal(0.0, 0.8), normal(0.0, 0.25)).astype(np.float32),
        outline=bends(count, DISC_BEND, rng),
        cup_ratio=ratio,
        cup_place=(-side * place).astype(np.complex64),
        cup_outline=bends(count, CUP_BEND, rng),
        crescent=np.where(ill, rng.uniform(0.15, 0.75, count), 0).astype(np.float32),
        crescent_way=way.astype(np.complex64),
    )


def bends(count: int, spread: float, rng: np.random.Generator) -> Complexes:
    """Random coefficients c_k of outlines; the higher, the smaller."""
    size = spread * 2.0 / np.array(HARMONICS)
    drawn = rng.standard_normal((2, count, len(HARMONICS)))
    return np.asarray((size * np.clip(drawn[0] + 1j * drawn[1], -2, 2)).astype(np.complex64))


def around(discs: OpticDiscs, grid: Grid) -> Around:
    """Where every pixel lies with respect to its image's disc and cup."""
    turn = np.exp(-1j * discs.lean).astype(np.complex64)
    offset = (grid.x - _each(discs.x)) + 1j * (grid.y - _each(discs.y))
    turned = (offset / _each(discs.radius)).astype(np.complex64) * _each(turn)
    plane = (turned.real + 1j * turned.imag / _each(discs.stretch)).astype(np.complex64)
    way, far = _direction(plane)
    beside, cup_far = _direction(plane - _each(discs.cup_place))
    crescent = _each(discs.crescent) * np.clip((way * np.conj(_each(discs.crescent_way))).real, 0, 1) ** 1.5
    return Around(
        plane=plane,
        way=way,
        disc=far / _bent(discs.outline, way),
        cup=(cup_far / (_each(discs.cup_ratio) * _bent(discs.cup_outline, beside))).astype(np.float32),
        crescent=crescent.astype(np.float32),
    )


def draw_mask(discs: OpticDiscs, seen: Around, hand: Hand, rng: np.random.Generator) -> NDArray[np.uint8]:
    """0 background, 1 rim, 2 cup, as wide as the site's habit has it and as steady as hands are."""
    count = len(discs)
    scale = np.exp(rng.standard_normal((2, count)) * [[hand.unsteady_disc], [hand.unsteady_cup]]).astype(np.float32)
    wobble = bends(count, 0.6 * hand.unsteady_disc, rng), bends(count, 0.6 * hand.unsteady_cup, rng)
    width = hand.disc * _each(scale[0]) * _bent(wobble[0], seen.way)
    inside = seen.disc < width + hand.atrophy * seen.crescent
    room = (LARGEST_CUP - np.abs(discs.cup_place)) / discs.cup_ratio
    cup = _each(np.minimum(hand.cup * scale[1], room)) * _bent(wobble[1], seen.way)
    return np.asarray(inside.astype(np.uint8) + (inside & (seen.cup < cup) & (seen.disc < 0.92 * width)))


def _bent(outline: Complexes, way: Complexes) -> Floats:
    """1 + sum_k Re(c_k u^k), kept away from 0."""
    total = np.ones(way.shape, np.float32)
    power = way
    for place, _ in enumerate(HARMONICS):
        power = power * way
        total += (_each(outline[:, place]) * power).real
    return np.asarray(np.maximum(total, np.float32(0.5)))


def _direction(plane: Complexes) -> tuple[Complexes, Floats]:
    far = np.abs(plane) + np.float32(1e-6)
    return plane / far, far


def _each(values: NDArray[Any]) -> NDArray[Any]:
    """One value an eye, to be spread over its pixels."""
    return values[:, None, None]
