"""The realistic pelvis: anatomy that changes with the level, textures, and statistics it shares with real slices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage

from fedsuper.data.synthetic.pelvis.body import draw_body
from fedsuper.data.synthetic.pelvis.bones_and_muscles import paint_fat, paint_frame, paired
from fedsuper.data.synthetic.pelvis.cross_sections import STRUCTURES
from fedsuper.data.synthetic.pelvis.gland import outline
from fedsuper.data.synthetic.pelvis.men import Man, draw_man
from fedsuper.data.synthetic.pelvis.pelvis_sites import OUTSIDE, PelvisMix, pelvis_hospital
from fedsuper.data.synthetic.pelvis.scene import BEND, GRAIN, draw_scene
from fedsuper.data.synthetic.prostate import MOST_SLICES_OF_A_MAN, render
from fedsuper.data.synthetic.prostate_anatomy import Grid, Painting
from fedsuper.data.synthetic.prostate_patient import FAT, MUSCLE

GRID = Grid.of(64, 3.0, 14, 3.4)


def man_of(seed: int, **changes: object) -> Man:
    return replace(draw_man(PelvisMix(), np.random.default_rng(seed), balloon=False), **changes)


def frame(seed: int, **changes: float) -> np.ndarray:
    """Fat, bones and muscles of a straight body, without organs."""
    body = replace(draw_body(np.random.default_rng(seed), wander=0.0), pitch=0.0, **changes)
    man = man_of(seed, shift=(0.0, 0.0, 0.0), stature=1.0)
    painting = Painting.blank(GRID, man, np.random.default_rng(seed), 0.0, GRAIN)
    paint_fat(painting, body)
    paint_frame(painting, body, 1.0, np.random.default_rng(seed))
    return painting.signal


@pytest.fixture(scope="module")
def volumes() -> list[tuple[np.ndarray, np.ndarray]]:
    """Twenty-four men of site 6: slices and labels, apex first, brightness from 0 to 1 as the eye sees it."""
    site = pelvis_hospital(5)
    site = replace(site, scanner=replace(site.scanner, axes="LPS"))
    found = []
    for number in range(24):
        image, label, _ = render(site, [1, number], 64)
        low, high = np.quantile(image, (0.005, 0.995))
        found.append((np.clip((image - low) / (high - low), 0, 1).transpose(2, 1, 0), label.transpose(2, 1, 0) > 0))
    return found


def at_height(volumes: list[tuple[np.ndarray, np.ndarray]], part: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of every man the slice at this part of his gland's height."""
    chosen = []
    for image, label in volumes:
        shown = np.flatnonzero(label.any(axis=(1, 2)))
        place = shown[round(part * (len(shown) - 1))]
        chosen.append((image[place], label[place]))
    return chosen


def step_at_border(slices: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """Mean brightness of the gland minus that of what lies around it."""
    steps = []
    for image, gland in slices:
        around = ndimage.binary_dilation(gland, iterations=3) & ~ndimage.binary_dilation(gland)
        steps.append(image[gland].mean() - image[around].mean())
    return float(np.mean(steps))


def test_frames_go_up_and_the_middle_is_painted_once() -> None:
    for structure in STRUCTURES:
        levels = [one[0] for one in structure.frames]
        assert levels == sorted(levels) and len(set(levels)) == len(levels)
        assert {one[1] > 0 for one in structure.frames} == {paired(structure)}
        below, above = levels[0] - 1.0, levels[-1] + 1.0
        assert not structure.at(np.array([below, above]))[2].any()


def test_low_slices_show_dark_fans_of_muscle_and_high_ones_hip_joints() -> None:
    x, y = np.meshgrid(GRID.x.ravel(), GRID.y.ravel())
    fan = (np.abs(np.abs(x) - 48) < 14) & (np.abs(y + 32) < 10)
    head = np.hypot(np.abs(x) - 90, y + 12) < 14
    low, high = (np.mean([frame(seed, level=level) for seed in range(6)], axis=0)[7] for level in (-45, 30))
    assert low[fan].mean() < 0.6 * high[fan].mean() and high[head].mean() > low[head].mean()


def test_muscles_are_streaked_as_far_as_the_man_is_fat() -> None:
    lean, fat = (frame(3, level=-45, streaks=streaks, septa=0.0) for streaks in (0.0, 1.0))
    dark = lean < 2 * MUSCLE
    assert dark.mean() > 0.2 and fat[dark].std() > 1.5 * lean[dark].std()


def test_strands_cross_the_fat() -> None:
    plain, crossed = (frame(4, level=20, septa=septa) for septa in (0.0, 1.0))
    bright = plain > 0.8 * FAT
    assert (crossed[bright] < plain[bright] - 0.1).mean() > 0.05


def test_the_gland_is_whole_where_it_is_painted() -> None:
    """The outline is drawn in a window around the gland only: nothing of it may lie beyond."""
    for seed in range(12):
        man = man_of(seed, half_width=34.0, half_depth=29.0)
        _, gland = draw_scene(GRID, man, np.random.default_rng(seed))
        everywhere = outline(Painting.blank(GRID, man, np.random.default_rng(seed), BEND, GRAIN), man)
        assert np.mean((gland > 0) != (everywhere > 0)) < 1e-5  # single precision against double


def test_a_scene_repeats_and_two_men_differ() -> None:
    one, again, other = (
        draw_scene(GRID, man_of(seed), np.random.default_rng(seed))[0] for seed in (1, 1, 2)
    )
    assert np.array_equal(one, again) and one.dtype == np.float32 and one.min() >= 0
    assert np.corrcoef(one.ravel(), other.ravel())[0, 1] < 0.8


@pytest.mark.parametrize("site", [*(pelvis_hospital(index) for index in range(6)), *OUTSIDE.values()])
def test_every_site_has_slices_with_and_without_gland(site) -> None:
    site = replace(site, scanner=replace(site.scanner, axes="LPS"))
    for number in range(4):
        image, label, _ = render(site, [2, number], 48)
        shown = label.any(axis=(0, 1))
        assert 10 <= len(shown) <= MOST_SLICES_OF_A_MAN and shown.sum() >= 5 and image.min() >= 0
        inside = label[1:-1, 1:-1]
        assert inside.sum() == label.sum(), "the gland does not touch the picture's edge"


def test_gland_sizes_and_places_are_those_of_real_slices(volumes) -> None:
    """PROSTATEx, 632 slices: 3.3 % of a slice, its middle within 3 % across and 7.5 % up and down (two spreads)."""
    glands = [label[place] for _, label in volumes for place in np.flatnonzero(label.any(axis=(1, 2)))]
    assert 0.02 < np.mean([gland.mean() for gland in glands]) < 0.05
    rows, columns = np.array([ndimage.center_of_mass(gland) for gland in glands]).T / 64
    assert 0.01 < columns.std() < 0.03 and 0.02 < rows.std() < 0.05 and abs(columns.mean() - 0.5) < 0.03


def test_the_apex_lies_in_dark_muscle_and_the_base_in_bright_surroundings(volumes) -> None:
    """Real slices step by +.12 at the apex and by -.17 at the base: no one threshold finds the gland."""
    apex, base = step_at_border(at_height(volumes, 0.12)), step_at_border(at_height(volumes, 0.88))
    assert 0.03 < apex < 0.2 and -0.25 < base < -0.06


def test_the_gland_is_mottled_no_more_than_real_ones(volumes) -> None:
    spread = np.mean([image[gland].std() for image, gland in at_height(volumes, 0.5)])
    assert 0.08 < spread < 0.19  # real: .12 to .13


def test_pelvises_resemble_each_other_as_little_as_real_ones(volumes) -> None:
    """Mean correlation of two men's slices: real .25; before slices knew their level it was .40."""
    flat = [image.ravel() for part in (0.12, 0.38, 0.62, 0.88) for image, _ in at_height(volumes, part)]
    close = np.corrcoef(np.stack(flat))
    assert 0.1 < (close.sum() - len(close)) / (len(close) * (len(close) - 1)) < 0.33
