"""Drawing fundus photographs with numpy, a stack of images at a time.

Lengths are fractions of the image's width.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsuper.data.synthetic.drawing import Floats, Grid, blur, opacity_of_dots, smooth_noise
from fedsuper.data.synthetic.retina_sites import Camera, Habit, Hospital, Patients
from fedsuper.data.synthetic.retina_vessels import draw_vessels

CUP_COLOR = (0.22, 0.40, 0.44)  # what the pale cup adds to the rim's color
RIM_COLOR = (0.19, 0.22, 0.12)  # what the disc adds to the fundus
LESION_COLOR = (0.30, 0.34, 0.18)
VESSEL_ABSORPTION = (0.42, 0.62, 0.55)
MACULA_ABSORPTION = (0.30, 0.42, 0.42)
LARGEST_CUP = 0.88  # drawn, of the room the disc has around the cup's center


@dataclass(frozen=True)
class Eyes:
    """The anatomy of a stack of eyes; every field has one entry per image."""

    x: Floats
    y: Floats
    radius: Floats
    elongation: Floats
    tilt: Floats
    cup_ratio: Floats
    cup_shift: Floats  # of the cup's center, in units of the room the rim leaves
    side: Floats  # +1: the macula lies to the left of the disc, -1: to the right


def draw_eyes(patients: Patients, count: int, rng: np.random.Generator) -> Eyes:
    """Draw `count` patients."""

    def normal(mean: float, spread: float, reach: float = 2.0) -> Floats:
        return (mean + spread * np.clip(rng.standard_normal(count), -reach, reach)).astype(np.float32)

    side = np.where(rng.random(count) < 0.5, -1, 1).astype(np.float32)
    nasal, down = patients.disc_offset
    return Eyes(
        x=0.5 + side * normal(nasal, patients.disc_wander),
        y=normal(0.5 + down, patients.disc_wander),
        radius=patients.disc_diameter / 2 * normal(1.0, 0.07),
        elongation=normal(1.08, 0.04),
        tilt=normal(0.0, 0.3),
        cup_ratio=np.clip(normal(patients.cup_ratio, patients.cup_spread), 0.25, 0.75),
        cup_shift=normal(0.0, 0.15),
        side=side,
    )


def disc_and_cup(eyes: Eyes, grid: Grid) -> tuple[Floats, Floats]:
    """Maps of the distance from the center of disc and cup, as a part of the way to the visible edge (1 on it)."""
    cos, sin = (f(eyes.tilt)[:, None, None] for f in (np.cos, np.sin))
    dx = (grid.x - eyes.x[:, None, None]) / eyes.radius[:, None, None]
    dy = (grid.y - eyes.y[:, None, None]) / (eyes.radius * eyes.elongation)[:, None, None]
    across, along = cos * dx + sin * dy, cos * dy - sin * dx
    shift = ((1 - eyes.cup_ratio) * eyes.cup_shift)[:, None, None]
    disc = np.sqrt(across**2 + along**2)
    cup = np.sqrt(across**2 + (along - shift) ** 2) / eyes.cup_ratio[:, None, None]
    return disc, cup


def draw_labels(eyes: Eyes, habit: Habit, grid: Grid, rng: np.random.Generator) -> NDArray[np.uint8]:
    """0 background, 1 rim, 2 cup, drawn as wide as the site's habit has it."""
    disc, cup = disc_and_cup(eyes, grid)
    hand = 1 + habit.unsteadiness * np.clip(rng.standard_normal((2, len(eyes.x))), -2, 2)
    disc_drawn = habit.disc * hand[0]
    room = LARGEST_CUP * (disc_drawn - np.abs(eyes.cup_shift * (1 - eyes.cup_ratio)))
    cup_drawn = np.minimum(habit.cup * hand[1], room / eyes.cup_ratio)
    inside = disc < disc_drawn[:, None, None]
    return np.asarray(inside.astype(np.uint8) + (inside & (cup < cup_drawn[:, None, None])))


def draw_lesions(eyes: Eyes, patients: Patients, size: int, rng: np.random.Generator) -> Floats:
    """Opacity of exudates: clusters of bright dots, mostly around the macula."""
    count, clusters, dots = len(eyes.x), 8, 14
    width = patients.disc_diameter
    present = np.arange(clusters)[None, :] < np.minimum(rng.poisson(patients.lesions, count), clusters)[:, None]
    macula = np.stack([eyes.x - eyes.side * 2.2 * width, eyes.y])[:, :, None]
    center = macula + 0.22 * rng.standard_normal((2, count, clusters))
    place = center[..., None] + 0.16 * width * rng.standard_normal((2, count, clusters, dots))
    weight = (present[..., None] * rng.uniform(0.3, 1.0, (count, clusters, dots))).astype(np.float32)
    x, y, weight = (part.reshape(count, -1).astype(np.float32) for part in (place[0], place[1], weight))
    return opacity_of_dots(x, y, weight, size, 0.035 * width, 0.4)


def photograph(eyes: Eyes, site: Hospital, grid: Grid, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Images (image, row, column, color) of these eyes as the site's camera takes them."""
    camera, patients, count = site.camera, site.patients, len(eyes.x)
    width = patients.disc_diameter
    disc, cup = disc_and_cup(eyes, grid)
    disc_opacity, cup_opacity = _inside(disc, 0.05), _inside(cup, 0.07)
    # Against the pale disc the vessels' crowded roots would hide the cup; in a photograph they glare there too.
    vessels = camera.vessels * draw_vessels(eyes, width, grid.size, rng) * (1 - 0.35 * disc_opacity - 0.3 * cup_opacity)
    lesions = draw_lesions(eyes, patients, grid.size, rng)
    fovea_x, fovea_y = (eyes.x - eyes.side * 2.4 * width)[:, None, None], (eyes.y + 0.3 * width)[:, None, None]
    macula = np.exp(((grid.x - fovea_x) ** 2 + (grid.y - fovea_y) ** 2) * np.float32(-0.5 / (0.6 * width) ** 2))
    fine, coarse = (smooth_noise(count, grid.size, cells, rng) for cells in (10, 4))
    texture = 1 + camera.mottling * (fine + 0.8 * coarse)
    light = illumination(camera, count, grid, rng)
    exposure = (1 + 0.06 * np.clip(rng.standard_normal((count, 1, 1)), -2, 2)).astype(np.float32)
    image = np.empty((3, count, grid.size, grid.size), np.float32)
    for channel in range(3):
        tint = camera.tint[channel] * rng.normal(1.0, 0.03, (count, 1, 1)).astype(np.float32)
        layer = tint * texture * (1 - MACULA_ABSORPTION[channel] * macula)
        layer += LESION_COLOR[channel] * lesions * (1 - disc_opacity)
        layer += RIM_COLOR[channel] * disc_opacity + CUP_COLOR[channel] * cup_opacity
        layer *= 1 - np.float32(VESSEL_ABSORPTION[channel]) * np.minimum(vessels, 1.3)
        layer = (layer - 0.4) * np.float32(camera.contrast) + 0.4
        image[channel] = layer * light * exposure * np.float32(camera.brightness)
    return develop(image, camera, rng)


def _inside(distance: Floats, softness: float) -> Floats:
    """1 inside an edge (distance below 1), 0 outside, a soft step between."""
    return np.asarray(np.float32(0.5) - np.float32(0.5) * np.tanh((distance - 1) / np.float32(2 * softness)))


def illumination(
    camera: Camera, count: int, grid: Grid, rng: np.random.Generator, aside: Floats | float = 0.0
) -> Floats:
    """The round field of view with its fall-off, a lamp never quite in the middle, and black outside.

    `aside` moves the field's middle along the rows.
    """
    cx, cy = (0.5 + 0.008 * rng.standard_normal((2, count, 1, 1))).astype(np.float32)
    cx = cx + aside
    lamp_x, lamp_y = (0.06 * rng.standard_normal((2, count, 1, 1))).astype(np.float32)
    radius = np.sqrt((grid.x - cx) ** 2 + (grid.y - cy) ** 2)
    lit = (grid.x - cx - lamp_x) ** 2 + (grid.y - cy - lamp_y) ** 2
    fall = 1 - camera.vignetting * np.minimum(lit / np.float32(camera.field_radius**2), 1.3)
    edge = _inside(radius / np.float32(camera.field_radius), 0.006)
    return np.asarray(fall * edge * (np.abs(grid.y - 0.5) < camera.field_height / 2))


def develop(image: Floats, camera: Camera, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Optics and sensor: blur, grain, and eight bits."""
    image = blur(image, camera.blur)
    noise = rng.standard_normal(image.shape, dtype=np.float32)
    if camera.grain > 0:
        noise = blur(noise, camera.grain)
        noise /= noise.std()
    image = (image + np.float32(camera.noise) * noise * (0.3 + 1.4 * image)) * 255  # light brings its own noise
    return np.moveaxis(np.clip(image + 0.5, 0, 255).astype(np.uint8), 0, -1)
