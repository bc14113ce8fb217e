"""What importers of photographs are made of: votes of raters, mask values, drawn contours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from import_files import circle, drawing, photograph
from PIL import Image

from fedsuper.data.importers.base import UnusableCaseError
from fedsuper.data.importers.readers.contours import nested_regions
from fedsuper.data.importers.readers.pictures import (
    disc_and_cup,
    foreground,
    from_gray_levels,
    majority,
    vote,
    votes_of_soft_map,
)
from fedsuper.data.importers.retina.refuge import read_label as read_gray_level_label


def dice(first: np.ndarray, second: np.ndarray) -> float:
    return 2 * (first & second).sum() / (first.sum() + second.sum())


class TestVotes:
    @given(st.integers(0, 4))
    def test_soft_map_of_four_experts_needs_three(self, marked):
        soft = np.full((2, 2), round(marked * 255 / 4), np.uint8)
        assert majority(votes_of_soft_map(soft, 4), 4).all() == (marked >= 3)

    @given(st.lists(st.booleans(), min_size=1, max_size=7))
    def test_more_than_half_wins_and_a_tie_does_not(self, marks):
        result = vote([np.full((1, 1), mark) for mark in marks])
        assert bool(result[0, 0]) == (sum(marks) > len(marks) / 2)


class TestMaskValues:
    @pytest.mark.parametrize("high", [1, 255])
    def test_foreground_of_both_codings(self, high):
        assert np.array_equal(foreground(circle(9).astype(np.uint8) * high), circle(9))

    def test_foreground_of_an_empty_mask_is_empty(self):
        assert not foreground(np.zeros((4, 4), np.uint8)).any()

    def test_cup_pixels_off_the_disc_are_no_cup(self):
        label = disc_and_cup(circle(10), circle(10, center=(0.5, 0.6)))
        assert set(np.unique(label)) == {0, 1, 2}
        assert not label[~circle(10)].any()

    def test_gray_levels_go_to_the_nearest(self):
        mask = np.full((4, 4), 255, np.uint8)
        mask[1, 1:3], mask[2, 1:3] = (130, 120), (3, 0)
        label = from_gray_levels(mask, Path("x.bmp"))
        assert label.tolist() == [[0, 0, 0, 0], [0, 1, 1, 0], [0, 2, 2, 0], [0, 0, 0, 0]]

    @pytest.mark.parametrize("mask", [circle(9).astype(np.uint8) * 255, circle(9).astype(np.uint8) + circle(4)])
    def test_other_codings_are_refused_not_turned_inside_out(self, mask):
        with pytest.raises(UnusableCaseError, match="255 background"):
            from_gray_levels(mask, Path("x.bmp"))

    def test_palette_masks_are_read_by_color(self, tmp_path):
        indices = Image.fromarray((circle(18).astype(np.uint8) + circle(8)).astype(np.uint8)).convert("P")
        indices.putpalette([255] * 3 + [128] * 3 + [0] * 3)
        indices.save(tmp_path / "g0001.bmp")
        assert np.array_equal(read_gray_level_label(tmp_path / "g0001.bmp"), circle(18).astype(int) + circle(8))


class TestContours:
    def test_two_lines_are_filled(self):
        base = photograph(0, 160)
        disc, cup = nested_regions(base, drawing(base, (50, 20)))
        assert dice(disc, circle(50, 160)) > 0.99 and dice(cup, circle(20, 160)) > 0.99

    def test_broken_lines_are_closed(self):
        base = photograph(0, 160)
        disc, cup = nested_regions(base, drawing(base, (50, 20), gap=5))
        assert dice(disc, circle(50, 160)) > 0.97 and dice(cup, circle(20, 160)) > 0.97

    def test_stray_marks_do_not_matter(self):
        base = photograph(0, 160)
        drawn = drawing(base, (50, 20))
        drawn[5:8, 5:8] = drawn[78:80, 78:80] = (0, 0, 255)
        disc, _ = nested_regions(base, drawn)
        assert dice(disc, circle(50, 160)) > 0.99

    @pytest.mark.parametrize(
        ("radii", "gap", "message"),
        [
            ((), 0, "nothing is drawn"),
            ((50,), 0, "two nested"),
            ((50, 35, 20), 0, "two nested"),
            ((50, 20), 60, "two nested"),
        ],
    )
    def test_anything_else_is_refused(self, radii, gap, message):
        base = photograph(0, 160)
        with pytest.raises(UnusableCaseError, match=message):
            nested_regions(base, drawing(base, radii, gap))

    def test_lines_side_by_side_are_refused(self):
        base = photograph(0, 160)
        drawn = base.copy()
        for center in ((0.25, 0.25), (0.75, 0.75)):
            drawn[circle(20, 160, center) & ~circle(18, 160, center)] = 255
        with pytest.raises(UnusableCaseError, match="two nested"):
            nested_regions(base, drawn)

    def test_sizes_must_agree(self):
        with pytest.raises(UnusableCaseError, match="differ in size"):
            nested_regions(photograph(0, 160), photograph(0, 150))
