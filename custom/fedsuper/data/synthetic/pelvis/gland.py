"""The gland of a realistic man: its outline at every height, its zones, nodules, tumor, old blood and doubtful ends."""

from __future__ import annotations

import math

import numpy as np

from fedsuper.data.synthetic.pelvis.men import Bulge, Man
from fedsuper.data.synthetic.prostate_anatomy import Field, Painting, ellipse
from fedsuper.data.synthetic.prostate_patient import CAPSULE, FAT, STROMA

OUTSIDE = np.float32(-9)  # millimeters inside the gland where there is none
APEX_LOOK, NECK_LOOK = 0.33, 0.38  # signal that the ends fade to: sphincter and bladder neck


def height(painting: Painting, man: Man) -> Field:
    """-1 at the apex of the gland, 1 at its base."""
    return painting.z / np.float32(man.half_height)


def narrowing(t: Field, man: Man) -> Field:
    """How wide the gland is at height t, as a part of its width: narrower at the apex than at the base."""
    return np.asarray(np.maximum(1 - np.abs(t) ** np.float32(man.blunt), 0) ** np.float32(0.5) * (1 + 0.1 * t))


def outline(painting: Painting, man: Man) -> Field:
    """Millimeters inside the gland: a chestnut that leans forward, wider behind, grooved, pushed out by nodules."""
    t = height(painting, man)
    size = narrowing(t, man)
    y = painting.y + man.lean * t
    back = y / np.float32(man.half_depth)
    across = man.half_width * size * (1 + 0.10 * np.clip(back, -1, 1))
    inside = ellipse(painting.x, y, across, man.half_depth * size, man.square)
    groove = 2.2 * np.exp(-((painting.x / 6) ** 2)) * np.clip(back, 0, 1)
    gland = np.where(np.abs(t) < 1, inside - groove, OUTSIDE).astype(np.float32)
    for bulge in man.bulges:
        gland = np.maximum(gland, np.where(np.abs(t) < 1.08, _bulge(painting, man, bulge), OUTSIDE))
    return gland


def _bulge(painting: Painting, man: Man, bulge: Bulge) -> Field:
    """Millimeters inside a nodule at the gland's border."""
    wide, deep = np.float32(man.half_width), np.float32(man.half_depth)
    x, y = painting.x - bulge.x * 0.8 * wide, painting.y - bulge.y * 0.8 * deep
    z = painting.z - np.float32(bulge.t * man.half_height)
    return np.asarray((bulge.radius * deep - np.sqrt(x**2 + y**2 + z**2)).astype(np.float32))


def paint_gland(painting: Painting, man: Man, gland: Field, rng: np.random.Generator) -> None:
    """Veins around it, then zones from the outside in, then disease, then the ends' fading; `gland` is its outline."""
    t = height(painting, man)
    veins = FAT * (0.78 + 0.25 * painting.coarse + 0.25 * painting.fine)
    around = np.clip(0.5 + t, 0, 1)  # at the apex the muscles lie close
    cover = np.clip((gland + 4.5) / painting.edge + np.float32(0.5), 0, 1) * np.float32(0.7) * around
    np.add(painting.signal, cover * (np.clip(veins, 0.08, 1) - painting.signal), out=painting.signal)
    painting.paint(gland + 1.1, CAPSULE, 0.9 * man.capsule)
    painting.paint(gland, man.peripheral * (1 + 0.16 * painting.fine + 0.10 * painting.coarse))
    inner, forward = _inner(painting, man, gland)
    painting.paint(inner + 0.9, CAPSULE * 1.6, 0.7)
    painting.paint(inner, man.transition * (1 + 0.20 * painting.coarse + 0.16 * painting.fine))
    _nodules(painting, man, inner, forward, rng)
    y = painting.y + man.lean * t
    ahead = y + man.half_depth * 0.95 * np.sqrt(np.maximum(1 - t**2, 0.1))
    front = ellipse(painting.x, ahead, 0.5 * man.half_width, 0.4 * man.half_depth)
    painting.paint(np.minimum(front, gland - 0.2), STROMA * 1.3 * (1 + 0.2 * painting.fine), 0.8)
    painting.paint(np.minimum(ellipse(painting.x, y - 1.0, 2.6, 2.2), gland), 0.5, 0.7)  # urethra
    _disease(painting, man, gland, rng)
    if man.weak_ends:
        _fade_ends(painting, man, gland)


def _inner(painting: Painting, man: Man, gland: Field) -> tuple[Field, Field]:
    """Millimeters inside the transition zone, and how far behind its middle each voxel lies."""
    t = height(painting, man)
    grown = 0.58 + 0.30 * man.hyperplasia
    size = np.clip(0.25 + 0.80 * (t + 1), 0, 1) * np.maximum(1 - np.clip(t, 0, 1) ** 4, 0) ** np.float32(0.5)
    forward = painting.y + man.lean * t + np.float32(man.half_depth * (0.34 - 0.24 * man.hyperplasia))
    across, deep = man.half_width * grown * size, man.half_depth * grown * 1.08 * size
    return np.minimum(ellipse(painting.x, forward, across, deep, 0.15), gland - 0.5), forward


def _nodules(painting: Painting, man: Man, inner: Field, forward: Field, rng: np.random.Generator) -> None:
    grown = 0.58 + 0.30 * man.hyperplasia
    for _ in range(int(3 + 7 * man.hyperplasia)):
        reach = man.half_width * grown, man.half_depth * grown, man.half_height
        x, y, z = (float(rng.uniform(-0.75, 0.75)) * one for one in reach)
        radius, flat = rng.uniform(2.5, 4.0 + 5.5 * man.hyperplasia), rng.uniform(0.7, 1.1)
        signal = man.transition * math.exp(rng.normal(0, 0.3))
        nodule = np.minimum(
            ellipse(painting.x - x, forward - y, radius, radius * flat) - 0.5 * np.abs(painting.z - z), inner
        )
        painting.paint(nodule + 0.7, CAPSULE * 1.7, 0.6)
        painting.paint(nodule, signal * (1 + 0.25 * painting.fine), 0.9)


def _disease(painting: Painting, man: Man, gland: Field, rng: np.random.Generator) -> None:
    """Nodules at the border with what is left of their capsules, dark patches of old blood, a tumor."""
    width, depth = man.half_width, man.half_depth
    for bulge in man.bulges:
        nodule = np.minimum(_bulge(painting, man, bulge), gland)
        painting.paint(nodule, CAPSULE * 1.4, 0.7 * man.capsule)
        painting.paint(nodule - 1, bulge.signal * (1 + 0.3 * painting.fine + 0.15 * painting.coarse), 0.9)
    for patch in man.patches:
        x, y = painting.x - patch.x * 0.8 * width, painting.y - patch.y * 0.8 * depth
        away = np.abs(painting.z - patch.t * man.half_height)
        spot = ellipse(x, y, patch.radius, 0.7 * patch.radius) - 0.5 * away + 0.8 * painting.coarse
        painting.paint(np.minimum(spot, gland), 0.22 * (1 + 0.2 * painting.fine), patch.strength)
    if man.tumor:
        side = 1 if rng.random() < 0.5 else -1
        across, down = side * rng.uniform(0.4, 0.75) * width, rng.uniform(0.35, 0.7) * depth
        spot = ellipse(painting.x - across, painting.y - down, rng.uniform(4, 7), rng.uniform(3, 5))
        spot = np.minimum(spot - 5 * np.abs(height(painting, man) - rng.uniform(-0.5, 0.4)), gland - 0.3)
        painting.paint(spot, 0.26 * (1 + 0.15 * painting.fine), 0.85)


def _fade_ends(painting: Painting, man: Man, gland: Field) -> None:
    """Towards the ends the gland takes on the look of the sphincter (apex) and of the bladder neck (base)."""
    t = height(painting, man)
    texture = 1 + 0.3 * painting.fine + 0.2 * painting.coarse
    look = np.where(t < 0, np.float32(APEX_LOOK), np.float32(NECK_LOOK)) * texture
    ends = np.clip((np.abs(t) - 0.45) / 0.4, 0, 1) * np.float32(man.weak_ends)
    cover = np.clip((gland + 1.5) / painting.edge + np.float32(0.5), 0, 1) * ends
    np.add(painting.signal, cover * (look - painting.signal), out=painting.signal)
