"""What lies against the gland: pelvic floor, rectum and anal canal, bladder, seminal vesicles, the urethra below."""

from __future__ import annotations

import numpy as np

from fedsuper.data.synthetic.pelvis.gland import height, narrowing
from fedsuper.data.synthetic.pelvis.men import Man
from fedsuper.data.synthetic.prostate_anatomy import Field, Painting, ellipse
from fedsuper.data.synthetic.prostate_patient import FAT, GAS, MUSCLE, VESICLE, WALL

RECTAL_WALL = 3.2
NOWHERE = np.float32(-9)


def paint_organs(painting: Painting, man: Man) -> None:
    """All of them, back to front."""
    for organ in (_floor, _rectum, _bladder, _vesicles, _below_the_apex):
        organ(painting, man)


def _back(painting: Painting, man: Man) -> Field:
    """Where the gland ends behind, at each height; below and above it the line goes on."""
    t = height(painting, man)
    size = np.maximum(narrowing(np.clip(t, -0.85, 0.85), man), 0.4)
    return np.asarray(man.half_depth * 0.95 * size - man.lean * np.clip(t, -1, 1))


def _canal(painting: Painting, man: Man) -> tuple[Field, Field, Field, Field]:
    """Of the rectum: middle (x and y), half-width and half-depth; below the apex it is the narrow anal canal."""
    t = height(painting, man)
    low = np.clip((-0.35 - t) / 0.7, 0, 1)
    radius = man.rectum * np.clip(1.02 + 0.22 * t, 0.7, 1.2)
    wide = radius * (1 - low) + 9.0 * low
    deep = wide * (0.78 if man.balloon else 0.95) * (1 + 0.35 * low)
    aside = man.aside * np.clip(t, 0, 1.3)
    behind = _back(painting, man) + RECTAL_WALL + deep + 9.0 * np.clip(t - 0.3, 0, 1)
    return np.asarray(aside), np.asarray(behind), np.asarray(wide), np.asarray(deep)


def _floor(painting: Painting, man: Man) -> None:
    """Levator ani: at the apex thick and close, meeting behind the canal; higher up wide, thin, then gone."""
    t = height(painting, man)
    _, behind, _, deep = _canal(painting, man)
    end = behind + deep + 9.0
    rise = np.clip((t + 1) / 1.6, 0, 1)
    broad = np.maximum(man.half_width * narrowing(np.clip(t, -0.9, 0.9), man), 12.0) + 4 + 14 * rise**2
    y = painting.y
    course = broad * np.sqrt(np.clip((end - y) / (end + 4), 0, 1))
    course = np.minimum(course, broad + 0.10 * np.minimum(y, 0))
    front = np.clip((y + 26 + 8 * rise) / 12, 0, 1)
    inside = np.minimum(course - np.abs(painting.x), 12 * (front - 0.5))
    loose = MUSCLE * 1.7 * (1 - rise) + FAT * 0.95 * rise
    painting.paint(inside, loose * (1 + 0.25 * painting.fine + 0.20 * painting.coarse), 0.8)
    thick = (4.2 - 2.8 * rise) * front
    band = np.where(t < 1.0, thick - np.abs(np.abs(painting.x) - course), NOWHERE)
    band = np.where(y < end, band, NOWHERE)
    painting.paint(band, MUSCLE * 1.2 * (1 + 0.25 * painting.fine), 0.85)


def _rectum(painting: Painting, man: Man) -> None:
    """Wall, then gas or stool, or the balloon of an endorectal coil; the anal canal is muscle with a bright lining."""
    aside, behind, wide, deep = _canal(painting, man)
    t = height(painting, man)
    tube = ellipse(painting.x - aside, painting.y - behind, wide, deep, 0.15)
    painting.paint(tube + RECTAL_WALL, WALL * (1.35 + 0.5 * man.resemblance) * (1 + 0.2 * painting.fine))
    if man.balloon:
        painting.paint(tube, GAS)
        painting.paint(1.0 - np.abs(ellipse(painting.x - aside, painting.y - behind, 4, 4)), 0.12)
        return
    painting.paint(tube + 0.8, WALL * 2.2)
    stool = np.clip(0.26 + 0.2 * man.resemblance + 0.18 * painting.coarse + 0.12 * painting.fine, 0.04, 0.8)
    canal = np.clip(0.22 + 0.05 * painting.coarse + 0.05 * painting.fine, 0.05, 0.5)
    content = np.where(t < -0.55, canal, stool)
    painting.paint(tube, content)
    if man.gas:
        bubble = np.where(t < -0.55, NOWHERE, np.minimum(tube, behind + 0.45 * deep - painting.y))
        painting.paint(bubble, GAS + 0.02)
    painting.paint(np.where(t < -0.55, tube - 5, NOWHERE), 0.36 * (1 + 0.3 * painting.fine), 0.7)


def _bladder(painting: Painting, man: Man) -> None:
    """Urine in front of the gland and, above its base, over it, in a dark wall that obstruction thickens."""
    t = height(painting, man)
    full = np.clip((t - man.neck) / 1.1, 0, 1) ** np.float32(0.55)
    wide, deep = man.bladder * full, 0.72 * man.bladder * full
    thick = 2.8 + 5.0 * man.resemblance
    back = -man.half_depth * narrowing(np.clip(t, -1, 1), man) - man.lean * np.clip(t, -1, 1)
    back = back + np.float32(0.35 * man.half_depth) * np.clip(t - 0.6, 0, 1)
    pool = ellipse(painting.x, painting.y - (back - thick - deep), wide, deep, 0.4)
    pool = np.where(full > 0.2, pool, NOWHERE)
    wall = WALL * (1.1 + 0.7 * man.resemblance) * (1 + 0.2 * painting.fine + 0.1 * painting.coarse)
    painting.paint(pool + thick, wall)
    painting.paint(pool, man.urine * (0.78 + 0.22 * np.clip(pool / 12, 0, 1)))


def _vesicles(painting: Painting, man: Man) -> None:
    """Seminal vesicles: bright convolutions and dark walls behind the bladder, above and beside the base."""
    t = height(painting, man)
    there = np.clip((t - 0.6) / 0.3, 0, 1) * np.clip((2.4 - t) / 0.3, 0, 1)
    bow = painting.y - man.half_depth * 0.6 + man.lean + 0.006 * painting.x**2
    lobes = np.minimum(ellipse(np.abs(painting.x) - 15, bow, 17 * there, 7 * there), 9.0)
    lobes = np.where(there > 0.2, lobes, NOWHERE)
    painting.paint(lobes + 0.8, WALL)
    folds = VESICLE * (0.85 + 0.45 * painting.coarse + 0.40 * painting.fine)
    painting.paint(lobes, np.clip(folds, 0.12, 1.1), 0.95)


def _below_the_apex(painting: Painting, man: Man) -> None:
    """The urethra in its sphincter, where the gland has ended."""
    t = height(painting, man)
    ended = np.clip((-0.9 - t) / 0.15, 0, 1)
    y = painting.y - np.float32(man.lean)
    tube = np.where(ended > 0, ellipse(painting.x, y, 9.0 * ended, 8.0 * ended), NOWHERE)
    painting.paint(tube, MUSCLE * 2.0)
    painting.paint(tube - 3.5, 0.45)
