"""From signal to scan: coil sensitivity, contrast, Rician noise; and the label as a hospital draws it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsuper.data.synthetic.prostate_anatomy import Field, Grid, noise_field
from fedsuper.data.synthetic.prostate_patient import Patient
from fedsuper.data.synthetic.prostate_sites import Habit, Scanner

BRIGHTEST = 32000


def sensitivity(scanner: Scanner, patient: Patient, grid: Grid, rng: np.random.Generator) -> Field:
    """What the coils see of each voxel: less in the middle, uneven, much more beside an endorectal coil."""
    radius = np.hypot(grid.x / 85, grid.y / 70)
    seen = (1 - scanner.shading * np.exp(-(radius**2))) * np.exp(scanner.bias * noise_field(rng, grid, 45, 4))
    if patient.balloon:
        behind = patient.shift[1] + patient.half_depth + patient.rectum
        away = np.maximum(np.hypot(grid.x - patient.shift[0], grid.y - behind) - patient.rectum, 0)
        seen = seen * (0.45 + scanner.coil_gain / (1 + (away / 16) ** 2))
    return np.asarray(seen.astype(np.float32))


def acquire(
    signal: Field, scanner: Scanner, patient: Patient, grid: Grid, rng: np.random.Generator
) -> NDArray[np.int16]:
    """The stored volume: |gain * (sensitivity * signal^contrast + complex noise)|, the magnitude a scanner keeps."""
    clean = sensitivity(scanner, patient, grid, rng) * (
        scanner.pedestal + (1 - scanner.pedestal) * signal**scanner.contrast
    )
    real, imaginary = rng.standard_normal((2, *signal.shape), dtype=np.float32) * np.float32(scanner.noise)
    magnitude = np.hypot(clean + real, imaginary) * scanner.gain
    return np.asarray(np.rint(np.clip(magnitude, 0, BRIGHTEST)).astype(np.int16))


def annotate(gland: Field, habit: Habit, patient: Patient, grid: Grid, rng: np.random.Generator) -> NDArray[np.uint8]:
    """The gland as the site draws it: a margin in the slice, and its own idea of where apex and base are."""
    margin = habit.margin + habit.unsteadiness * rng.standard_normal()
    wobble = 0.35 * noise_field(rng, grid, 9, 0.4)
    reach = patient.half_height + habit.ends - np.abs(grid.z - patient.shift[2])
    return np.asarray(((gland + margin + wobble > 0) & (reach > 0)).astype(np.uint8))
