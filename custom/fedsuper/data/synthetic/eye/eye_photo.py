"""Photographs of a stack of eyes: fundus, disc, vessels and findings, laid over each other, then camera and light."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedsuper.data.synthetic.drawing import Floats, Grid, smooth_noise
from fedsuper.data.synthetic.eye.eye_findings import cloud, exudates, glare, hemorrhages, scars, soft_inside
from fedsuper.data.synthetic.eye.eye_sites import CaseMix, EyeHospital
from fedsuper.data.synthetic.eye.optic_disc import Around, OpticDiscs
from fedsuper.data.synthetic.retina_render import develop, illumination
from fedsuper.data.synthetic.retina_vessels import draw_vessels

# Brightness over that of the bare fundus, less 1: what is yellow to one camera is white to another.
RIM, PALE, ATROPHY, EXUDATE = (0.28, 0.36, 0.40), (0.08, 0.45, 0.70), (0.18, 0.40, 0.42), (0.28, 0.75, 0.55)
GLARE = (0.42, 0.36, 0.30)  # added
# What absorbs, as a share of the light.
BLOOD, PIGMENT, VESSEL = (0.35, 0.60, 0.55), (0.42, 0.45, 0.40), (0.30, 0.62, 0.52)


def photograph_eyes(
    discs: OpticDiscs, seen: Around, site: EyeHospital, grid: Grid, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Images (image, row, column, color) of these eyes as the site's camera takes them."""
    camera, mix, count = site.camera, site.mix, len(discs)
    disc, cup, rim_pallor = _borders(discs, seen, mix, rng)
    beside, pigmented = _atrophy(seen, rng)
    rooted = replace(discs, x=discs.x + discs.side * discs.radius * rng.uniform(-0.1, 0.5, count).astype(np.float32))
    trunks = rng.uniform(0.5, 1.4, (count, 8)) * (rng.random((count, 8)) < 0.75)
    vessels = draw_vessels(rooted, mix.disc_diameter, grid.size, rng, trunks.astype(np.float32))
    vessels = camera.vessels * vessels * (1 - 0.2 * cup)
    pale, ringed = scars(mix, discs, grid, rng)
    dark = np.minimum(0.8 * pigmented + ringed, 1) * (1 - disc)
    dots, blood = exudates(mix, count, grid.size, rng), hemorrhages(mix, count, grid.size, rng)
    texture = 1 + camera.mottling * _choroid(count, grid, rng) + _fibers(seen, rng)
    aside = -discs.side * rng.uniform(-0.2, 1.0, count) * camera.off_center
    light = illumination(camera, count, grid, rng, aside[:, None, None].astype(np.float32))
    thrown = glare(mix, count, grid, rng)
    exposure = np.exp(0.10 * np.clip(rng.standard_normal((count, 1, 1)), -2, 2)).astype(np.float32)
    hue = np.exp(mix.pigment * np.clip(rng.standard_normal((count, 1, 1)), -2, 2)).astype(np.float32)
    clear, white = np.exp(np.array([[0.3], [0.4]]) * np.clip(rng.standard_normal((2, count)), -2, 2)).astype(np.float32)
    nerve = clear[:, None, None], white[:, None, None] * np.maximum(rim_pallor, cup)
    image = np.empty((3, count, grid.size, grid.size), np.float32)
    for channel, warmth in enumerate((0.35, -0.4, -0.7)):
        tint = np.float32(camera.tint[channel]) * hue**warmth
        layer = tint * texture * (1 + ATROPHY[channel] * np.maximum(beside, 0.9 * pale) + EXUDATE[channel] * dots)
        layer *= 1 - np.float32(PIGMENT[channel]) * dark
        layer *= 1 - np.float32(BLOOD[channel]) * blood * (1 - 0.6 * disc)
        head = tint * (1 + 0.25 * (texture - 1) + RIM[channel] * nerve[0] + PALE[channel] * nerve[1])
        layer += disc * (head - layer)
        layer *= 1 - np.float32(VESSEL[channel]) * np.minimum(vessels, 1.2)
        layer = (layer - 0.4) * np.float32(camera.contrast) + 0.4 + GLARE[channel] * thrown
        image[channel] = layer * light * exposure * np.float32(camera.brightness)
    return develop(cloud(image, mix, rng), camera, rng)


def _borders(discs: OpticDiscs, seen: Around, mix: CaseMix, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Opacity of disc and cup, whose borders fade and break towards one side, and the pallor of the rim.

    The nasal rim, from which vessels and most fibers come, is redder and less sharp than the temporal one.
    """
    count = len(seen.disc)

    def share(mean: float, most: float = 1.0) -> Floats:
        return np.clip(mean * rng.gamma(2.0, 0.5, (count, 1, 1)), 0, most).astype(np.float32)

    weak, pallor = share(mix.weak_border), share(mix.pallor)
    sides = np.exp(2j * np.pi * rng.random((2, count, 1, 1))).astype(np.complex64)
    nasal = np.clip(seen.plane.real * discs.side[:, None, None], -1, 1)
    faded = weak * (0.3 + 0.7 * np.clip(0.6 * (seen.way * sides[0]).real + 0.6 * nasal, 0, 1))
    broken = np.clip((seen.way**3 * sides[1]).real, 0, 1) * weak
    disc = soft_inside(seen.disc, 0.03 + 0.14 * faded) * (1 - 0.5 * faded - 0.3 * broken)
    excavated = rng.uniform(0.35, 1.0, (count, 1, 1)).astype(np.float32)
    cup = soft_inside(seen.cup, 0.06 + 0.22 * (1 - excavated) + 0.1 * weak) * (0.35 + 0.65 * excavated)
    uneven = rng.uniform(0.1, 0.7, (count, 1, 1)).astype(np.float32)
    return disc, cup, np.asarray(0.85 * pallor - uneven * (nasal + 0.1) * (1 - pallor))


def _atrophy(seen: Around, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Opacity of the pale crescent beside the disc, and of the pigment at its outer border."""
    count = len(seen.disc)
    strength = rng.uniform(0.45, 1.0, (count, 1, 1)).astype(np.float32)
    ragged = smooth_noise(count, seen.disc.shape[1], 14, rng) * np.float32(0.12)
    place = (seen.disc - 1) / np.maximum(seen.crescent * (1 + ragged), 1e-3)
    there = np.clip(seen.crescent / 0.08, 0, 1)
    pigmented = np.exp(-0.5 * ((place - 1.12) / 0.14) ** 2) * np.clip(1 + 2 * ragged, 0, 1.5)
    return strength * there * soft_inside(place.astype(np.float32), 0.06), there * rng.uniform(
        0, 1, (count, 1, 1)
    ) * pigmented


def _choroid(count: int, grid: Grid, rng: np.random.Generator) -> Floats:
    """Mottling of the layers below: broad clouds and, in some eyes, the pattern of large choroidal vessels."""
    fine, middle, coarse = (smooth_noise(count, grid.size, cells, rng) for cells in (22, 10, 4))
    tiger = rng.uniform(0, 1, (count, 1, 1)).astype(np.float32) ** 2
    return np.asarray(0.5 * middle + 0.8 * coarse + tiger * (1.2 - 2.2 * np.abs(np.tanh(middle + 0.4 * fine))))


def _fibers(seen: Around, rng: np.random.Generator) -> Floats:
    """The sheen of nerve fibers where they leave the disc, above and below: it softens the border there."""
    strength = rng.uniform(0, 0.22, (len(seen.disc), 1, 1)).astype(np.float32)
    upright = 0.4 + 0.6 * seen.way.imag**2
    return np.asarray(strength * upright * np.exp(-np.maximum(seen.disc - 1, 0) / np.float32(0.45)))
