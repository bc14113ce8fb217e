"""A realistic man's pelvis as signal, and his gland, on any grid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedsuper.data.synthetic.pelvis.bones_and_muscles import paint_fat, paint_frame, paint_skin
from fedsuper.data.synthetic.pelvis.gland import OUTSIDE, outline, paint_gland
from fedsuper.data.synthetic.pelvis.men import Man
from fedsuper.data.synthetic.pelvis.soft_organs import paint_organs
from fedsuper.data.synthetic.prostate_anatomy import Field, Grid, Painting

BEND, GRAIN = 2.2, 1.4  # millimeters


def draw_scene(grid: Grid, man: Man, rng: np.random.Generator) -> tuple[Field, Field]:
    """Signal, and millimeters inside the gland (negative outside), on `grid`."""
    painting = _in_single_precision(Painting.blank(grid, man, rng, BEND, GRAIN))
    paint_fat(painting, man.body)
    paint_frame(painting, man.body, man.stature, rng)
    paint_skin(painting, man.body)
    paint_organs(painting.window(0, 0, 50, 85), man)
    gland = np.full_like(painting.signal, OUTSIDE)
    place = 0, 0, 1.4 * man.half_width, 1.6 * man.half_depth
    near = painting.window(*place)
    inside = replace(painting, signal=gland).window(*place).signal  # a view: what is put there is in `gland`
    inside[...] = outline(near, man)
    paint_gland(near, man, inside, rng)
    return np.clip(painting.signal, 0, None), gland


def _in_single_precision(painting: Painting) -> Painting:
    """Half the memory to move: a scene has twice as many parts as the easy pelvis and should not take twice as long."""
    fields = ("x", "y", "fine", "coarse", "signal")
    return replace(painting, **{name: getattr(painting, name).astype(np.float32) for name in fields})
