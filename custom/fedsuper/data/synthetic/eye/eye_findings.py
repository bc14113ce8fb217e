"""What makes a disc hard to outline: disease beside it, things that resemble it, and bad light on the way."""

from __future__ import annotations

import numpy as np

from fedsuper.data.synthetic.drawing import Floats, Grid, blur, opacity_of_dots, smooth_noise
from fedsuper.data.synthetic.eye.eye_sites import CaseMix
from fedsuper.data.synthetic.eye.optic_disc import OpticDiscs


def exudates(mix: CaseMix, count: int, size: int, rng: np.random.Generator) -> Floats:
    """Opacity of hard exudates: clusters of small bright dots anywhere in the picture."""
    return _spots(mix.exudates, 6, 16, mix.disc_diameter * 0.16, 0.028 * mix.disc_diameter, count, size, rng)


def hemorrhages(mix: CaseMix, count: int, size: int, rng: np.random.Generator) -> Floats:
    """Opacity of bleedings: few, wide, dark."""
    return _spots(mix.bleeding, 6, 5, mix.disc_diameter * 0.06, 0.06 * mix.disc_diameter, count, size, rng)


def _spots(
    rate: float, clusters: int, dots: int, reach: float, width: float, count: int, size: int, rng: np.random.Generator
) -> Floats:
    """Clusters of dots: opacity 1 - exp(-sum of Gaussians)."""
    present = np.arange(clusters)[None, :] < np.minimum(rng.poisson(rate, count), clusters)[:, None]
    center = rng.uniform(0, 1, (2, count, clusters, 1))
    place = center + reach * rng.standard_normal((2, count, clusters, dots))
    strength = present[..., None] * rng.uniform(0.2, 1.0, (count, clusters, dots))
    x, y, weight = (part.reshape(count, -1).astype(np.float32) for part in (place[0], place[1], strength))
    return opacity_of_dots(x, y, weight, size, width, 0.4)


def scars(mix: CaseMix, discs: OpticDiscs, grid: Grid, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Pale round patches (old inflammation, laser) and their dark pigment, beside the disc: (pale, pigment)."""
    count, most = len(discs), 3
    pale, pigment = np.zeros((2, count, grid.size, grid.size), np.float32)
    present = np.arange(most)[None, :] < np.minimum(rng.poisson(mix.scars, count), most)[:, None]
    angle, far = rng.uniform(0, 2 * np.pi, (count, most)), rng.uniform(1.5, 3.2, (count, most))
    x = discs.x[:, None] + far * discs.radius[:, None] * np.cos(angle)
    y = discs.y[:, None] + far * discs.radius[:, None] * np.sin(angle)
    radius = discs.radius[:, None] * rng.uniform(0.2, 0.75, (count, most))
    strength = present * rng.uniform(0.3, 0.9, (count, most))
    for eye, number in zip(*np.nonzero(present), strict=True):
        dx = grid.x[0] - np.float32(x[eye, number])
        dy = (grid.y[0] - np.float32(y[eye, number])) * np.float32(rng.uniform(0.7, 1.4))
        away = np.sqrt(dx**2 + dy**2) / np.float32(radius[eye, number])
        pale[eye] += np.float32(strength[eye, number]) * soft_inside(away, 0.10)
        pigment[eye] += np.float32(0.5 * strength[eye, number]) * np.exp(-0.5 * ((away - 1.05) / 0.12) ** 2)
    return np.minimum(pale, 1), np.minimum(pigment, 1)


def glare(mix: CaseMix, count: int, grid: Grid, rng: np.random.Generator) -> Floats:
    """Light that eyelids, lens and wet retina throw back: a crescent at the edge of the field, and a sheen."""
    strength = (mix.glare * rng.exponential(0.7, (count, 1, 1))).clip(0, 1.6).astype(np.float32)
    angle = rng.uniform(0, 2 * np.pi, (count, 1, 1)).astype(np.float32)
    edge = (grid.x - 0.5) * np.cos(angle) + (grid.y - 0.5) * np.sin(angle)
    sheen = np.clip(smooth_noise(count, grid.size, 5, rng) - 0.9, 0, 2)
    return np.asarray(strength * (0.5 * np.exp((edge - 0.5) * 9) + 0.22 * sheen))


def cloud(image: Floats, mix: CaseMix, rng: np.random.Generator) -> Floats:
    """Media opacity: light scattered on its way, so that contrast falls and a veil lies over the picture."""
    count = image.shape[1]
    cloudy = np.clip(mix.opacity * rng.exponential(0.8, (count, 1, 1)), 0, 0.9).astype(np.float32)
    veil = image.mean(axis=(2, 3), keepdims=True) * np.float32(1.15) + np.float32(0.04)
    scattered = blur(image, 0.022)
    mixed = image + cloudy * (scattered - image)
    lit = (image.max(axis=0) > 0.04).astype(np.float32)  # the frame around the field stays black
    return np.asarray(mixed + np.float32(0.45) * cloudy * lit * (veil - mixed))


def soft_inside(distance: Floats, softness: Floats | float) -> Floats:
    """1 inside a border (distance below 1), 0 outside, a step between that may be of another width everywhere."""
    return np.asarray(0.5 - 0.5 * np.tanh((distance - 1) / (2 * np.asarray(softness, np.float32)))).astype(np.float32)
