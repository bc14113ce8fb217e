"""Bones and muscles around the gland, level by level: what a slice shows depends on how high it lies in the pelvis.

Each is an ellipse whose place, size and turn are known at a few levels and change evenly between them. Levels are
millimeters above the middle of an average gland; a man's gland lies higher or lower than that. Low slices show the
adductors' dark fans and the seats, high ones the hip joints.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsuper.data.synthetic.prostate_patient import CORTEX, FLOW, MARROW, MUSCLE

# Level, x from the midline, y to the back, half-axes across and deep, turn in degrees (its lower end outwards below 0).
Frame = tuple[float, float, float, float, float, float]


@dataclass(frozen=True)
class Structure:
    """A bone, muscle or vessel. Those beside the midline are there twice, mirrored."""

    frames: tuple[Frame, ...]  # from low to high; above and below them there is nothing
    signal: float
    rim: float = 0.0  # width of a cortical or fascial rim
    fibers: float = 0.0  # how far streaks of fat follow its long side
    grain: float = 0.2
    square: float = 0.3
    sway: float = 3.0  # millimeters by which its place varies from man to man

    def at(self, levels: NDArray[np.floating]) -> list[NDArray[np.float32]]:
        """x, y, across, deep and turn (in radians) at these levels; 0 across where there is nothing."""
        table = np.array(self.frames)
        found = [np.interp(levels, table[:, 0], table[:, column]) for column in range(1, 6)]
        there = (levels >= table[0, 0]) & (levels <= table[-1, 0])
        found[2] = np.where(there, found[2], 0.0)
        found[4] = np.radians(found[4])
        return [numbers.astype(np.float32)[:, None, None] for numbers in found]


def _muscle(*frames: Frame, fibers: float = 1.0, sway: float = 3.0, rim: float = 0.0) -> Structure:
    return Structure(frames, MUSCLE, rim, fibers, 0.3, sway=sway)


def _bone(*frames: Frame, signal: float = MARROW, rim: float = 1.5, square: float = 0.3) -> Structure:
    return Structure(frames, signal, rim, grain=0.16, square=square)


# Back to front as they are painted.
STRUCTURES = (
    _muscle((-70, 62, 74, 44, 18, 0), (0, 58, 72, 44, 14, -4), (35, 52, 66, 44, 9, -14), (60, 50, 64, 42, 8, -16)),
    _muscle((-70, 94, 26, 20, 30, 0), (-10, 92, 30, 16, 26, -8), (15, 94, 40, 12, 14, 0)),  # behind the hip
    _muscle((-70, 88, -36, 18, 16, 0), (0, 86, -42, 18, 13, 0), (60, 78, -44, 22, 15, 0)),  # iliopsoas
    _muscle((-70, 52, -48, 40, 14, 32), (-20, 46, -45, 32, 9, 30), (-6, 52, -42, 16, 4, 30)),  # adductors
    _muscle((-70, 54, -26, 42, 18, 36), (-20, 48, -26, 36, 12, 35), (-4, 58, -22, 12, 4, 35)),  # obturator externus
    _muscle((-70, 32, -58, 24, 10, 26), (-15, 38, -56, 28, 9, 24), (12, 52, -54, 24, 8, 16), (22, 62, -52, 16, 5, 10)),
    _bone((-10, 66, -34, 6, 6, 0), (0, 58, -36, 15, 9, 10), (15, 62, -33, 15, 12, 0), (60, 62, -30, 16, 14, 0)),
    _bone((-5, 60, 0, 4, 12, 0), (6, 60, -4, 6, 30, -4), (60, 60, -4, 7, 32, 0)),  # inner wall of the hip joint
    _bone((-62, 60, 44, 10, 10, 0), (-25, 66, 35, 13, 18, -20), (-8, 68, 26, 12, 24, -16), (60, 64, 18, 14, 28, -8)),
    _bone((-24, 98, -2, 8, 12, 0), (-12, 95, -8, 22, 22, 0), (8, 90, -12, 27, 27, 0), (35, 88, -12, 25, 25, 0),
          (60, 86, -12, 12, 12, 0), signal=MARROW * 1.2, rim=2.0, square=0.0),  # head of the femur
    _bone((-62, 32, -14, 4, 15, -30), (-34, 17, -36, 6, 17, -20), (-18, 11, -48, 11, 16, 8), (-4, 22, -52, 25, 9, 24),
          (8, 29, -50, 27, 7, 20), (15, 40, -46, 12, 3, 16), square=0.5),  # pubis
    _muscle((-52, 48, 26, 3, 14, -28), (-32, 45, 19, 7, 26, -28), (-18, 42, 12, 9.5, 35, -24), (-4, 45, 6, 10, 38, -18),
            (12, 51, 0, 7.5, 37, -8), (35, 53, -2, 4.5, 34, -2), (60, 55, -4, 4, 30, 0), fibers=0.3),  # obturator int.
    _muscle((-14, 66, 54, 10, 3, -20), (2, 66, 52, 18, 4.5, -22), (16, 64, 48, 12, 3, -24), fibers=0.3),  # its tendon
    _bone((4, 0, 76, 4, 2, 0), (12, 0, 72, 7, 4, 0), (60, 0, 62, 12, 7, 0), rim=0.8),  # coccyx
    Structure(((-70, 0, 96, 1.6, 14, 0), (6, 0, 98, 1.2, 8, 0)), CORTEX * 2, grain=0.0, sway=1.5),  # natal cleft
    _muscle((-2, 13, -84, 12, 2, 0), (12, 12, -86, 14, 5, 0), (60, 14, -88, 18, 5, 0), fibers=0.4),  # rectus
    Structure(((-70, 0, -84, 15, 10, 0), (-14, 0, -80, 16, 6, 0), (2, 0, -78, 14, 2, 0)), 0.3, grain=0.8),  # root
    Structure(((-70, 30, -74, 8, 7, 0), (-5, 42, -72, 8, 6, 0), (60, 52, -70, 7, 5, 0)), 0.4, 0.6, grain=0.9, sway=5),
    Structure(((-70, 72, -60, 5, 5, 0), (60, 78, -58, 6, 6, 0)), FLOW, 0.6, grain=0.0, square=0.0, sway=4),  # vein
    Structure(((-70, 83, -56, 5, 5, 0), (60, 88, -54, 5, 5, 0)), FLOW, 0.6, grain=0.0, square=0.0, sway=4),  # artery
)
