"""The hospitals of the realistic prostate federation: scanner, case mix, habit, and how far each is from the common."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedsuper.data.synthetic import prostate_sites
from fedsuper.data.synthetic.prostate_sites import Habit, Hospital, Scanner
from fedsuper.data.synthetic.shift import PARTS, Amounts, towards


@dataclass(frozen=True)
class PelvisMix:
    """Whom a site scans; 0..1 unless said otherwise."""

    size_spread: float = 0.13  # of the gland's width, from man to man
    wander: float = 6.0  # millimeters: spread of the gland's place in the picture
    hyperplasia: float = 0.5  # mean share of the gland that nodules take
    bulges: float = 1.0  # nodules an average gland has that push its border outwards, or up into the bladder
    weak_ends: float = 0.5  # how far apex and base fade into sphincter and bladder neck
    weak_capsule: float = 0.5  # how far the dark line around the gland is missing
    bleeding: float = 0.35  # share of men with dark patches after a biopsy
    resemblance: float = 0.5  # how far bladder wall and rectum look like the gland
    unlike: float = 0.16  # spread of the zones' brightness from man to man


@dataclass(frozen=True)
class PelvisHospital(Hospital):
    """A site of the realistic federation."""

    mix: PelvisMix
    amounts: Amounts


COMMON_SCANNER = Scanner(180, 3.4, 560, 1.05, noise=0.03, shading=0.2)
COMMON_MIX, COMMON_HABIT = PelvisMix(), Habit(0.2, 0.0, 0.6)
MIXES = (
    PelvisMix(hyperplasia=0.35, bleeding=0.6),
    PelvisMix(hyperplasia=0.65, bulges=1.8, resemblance=0.3),
    PelvisMix(weak_ends=0.8, weak_capsule=0.7),
    PelvisMix(size_spread=0.10, bleeding=0.7, resemblance=0.7),
    PelvisMix(weak_ends=0.7, resemblance=0.8, unlike=0.22),
    PelvisMix(hyperplasia=0.55, size_spread=0.16),
)
AMOUNTS = (
    Amounts(0.8, 1.0, 0.6),
    Amounts(1.0, 1.0, 1.0),
    Amounts(1.0, 1.0, 1.0),
    Amounts(1.0, 1.0, 1.2),
    Amounts(1.0, 1.0, 1.0),
    Amounts(0.8, 1.0, 0.8),
)
OUTSIDE: dict[str, PelvisHospital] = {
    "near": PelvisHospital(
        replace(prostate_sites.HOSPITALS[5].scanner, gain=480, contrast=1.1, noise=0.025, axes="LPS"),
        Habit(0.6, -0.5, 0.6),
        30,
        replace(COMMON_MIX, hyperplasia=0.6),
        Amounts(1.0, 0.5, 1.0),
    ),
    "unlike": PelvisHospital(
        prostate_sites.OUTSIDE.scanner,
        Habit(0.9, 1.5, 0.6),
        30,
        PelvisMix(weak_ends=0.8, bleeding=0.6, hyperplasia=0.7, unlike=0.22),
        Amounts(2.0, 1.0, 1.0),
    ),
}


def pelvis_hospital(index: int, shift: tuple[str, ...] = PARTS) -> PelvisHospital:
    """The hospital at `index`; after the designed six come variations of them, each with a scanner of its own."""
    own, base = prostate_sites.hospital(index), index % len(MIXES)
    amounts = AMOUNTS[base].only(shift)
    return PelvisHospital(
        towards(COMMON_SCANNER, own.scanner, amounts.camera),
        towards(COMMON_HABIT, replace(own.habit, unsteadiness=COMMON_HABIT.unsteadiness), amounts.habit),
        own.share,
        towards(COMMON_MIX, MIXES[base], amounts.anatomy),
        amounts,
    )
