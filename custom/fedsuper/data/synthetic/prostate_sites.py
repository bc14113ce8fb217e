"""The hospitals of the synthetic prostate federation: scanner, coil, geometry, annotation habit, size.

The six follow the kinds of scan behind the public prostate collections: surface coils at 3 T, endorectal coils at
1.5 T, mixtures of both. Their patients come from one distribution, so that the sites differ in brightness far more than
in shape.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Scanner:
    """How a site acquires. Noise and shading are shares of the brightest signal."""

    field_of_view: float  # millimeters
    slice_step: float
    gain: float  # stored value of urine in the middle of the picture
    contrast: float = 1.0  # exponent on the signal: above 1 a long echo time, dark and hard
    pedestal: float = 0.0  # brightness of no signal
    noise: float = 0.03
    shading: float = 0.2  # light lost in the middle, far from the surface coils
    bias: float = 0.10  # spread of the uneven sensitivity
    endorectal: float = 0.0  # share of scans with an endorectal coil
    coil_gain: float = 0.0  # brightness added beside that coil
    blur: float = 1.0
    axes: str = "LPS"  # where the file's axes point
    tilt: float = 0.0  # degrees by which the slices lean


@dataclass(frozen=True)
class Habit:
    """How a site draws the gland: millimeters beyond its border, in the slice and at apex and base."""

    margin: float = 0.0
    ends: float = 0.0
    unsteadiness: float = 0.4  # spread of the margin from case to case


@dataclass(frozen=True)
class Hospital:
    """One site; `share` is its part in the federation's volumes."""

    scanner: Scanner
    habit: Habit
    share: float


HOSPITALS = (
    Hospital(Scanner(186, 3.4, 420, 1.00, noise=0.030, shading=0.15), Habit(0.0, 0.0), 19),
    Hospital(
        Scanner(170, 3.6, 950, 0.75, 0.04, noise=0.022, shading=0.05, bias=0.06, axes="RAS"), Habit(0.8, 1.5), 32
    ),
    Hospital(Scanner(180, 4.0, 300, 1.45, noise=0.035, shading=0.35, axes="LAS", tilt=-12), Habit(-0.6, -1.0), 35),
    Hospital(
        Scanner(148, 3.2, 1500, 1.10, noise=0.050, bias=0.12, endorectal=1.0, coil_gain=2.2, blur=1.3, axes="PSR"),
        Habit(1.2, 0.0),
        35,
    ),
    Hospital(
        Scanner(160, 3.0, 680, 0.90, 0.10, 0.055, 0.30, 0.22, 0.5, 1.2, 1.4, axes="LPI", tilt=7),
        Habit(0.3, -1.5),
        50,
    ),
    Hospital(Scanner(192, 3.3, 560, 1.20, noise=0.020, shading=0.25, axes="SLP", tilt=9), Habit(-0.3, 1.0), 99),
)
OUTSIDE = Hospital(
    Scanner(205, 3.8, 180, 0.70, 0.15, 0.055, 0.40, 0.22, blur=1.6, axes="IRA", tilt=-5), Habit(0.5, 0.5), 30
)


def hospital(index: int) -> Hospital:
    """The hospital at `index`; after the designed six come variations of them, each with a scanner of its own."""
    base = HOSPITALS[index % len(HOSPITALS)]
    if index < len(HOSPITALS):
        return base
    rng = np.random.default_rng([index, 90])
    scanner = replace(
        base.scanner,
        field_of_view=base.scanner.field_of_view * rng.uniform(0.92, 1.08),
        gain=base.scanner.gain * rng.uniform(0.5, 2.0),
        contrast=base.scanner.contrast * rng.uniform(0.8, 1.25),
        shading=base.scanner.shading + rng.uniform(0, 0.2),
        bias=base.scanner.bias * rng.uniform(0.7, 1.5),
    )
    return replace(base, scanner=scanner, habit=replace(base.habit, margin=base.habit.margin + rng.uniform(-0.5, 0.5)))
