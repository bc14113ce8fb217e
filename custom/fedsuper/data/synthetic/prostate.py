"""A synthetic prostate federation on disk, in the data-root layout: the whole gland in axial T2 volumes, as NIfTI."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsuper.data.images.nifti import write_volume
from fedsuper.data.synthetic.federation_folders import Cases, FederationWriter
from fedsuper.data.synthetic.pelvis import pelvis_sites
from fedsuper.data.synthetic.pelvis.men import Man, draw_man
from fedsuper.data.synthetic.pelvis.pelvis_sites import PelvisHospital, pelvis_hospital
from fedsuper.data.synthetic.pelvis.scene import draw_scene
from fedsuper.data.synthetic.prostate_anatomy import Grid
from fedsuper.data.synthetic.prostate_organs import draw_pelvis
from fedsuper.data.synthetic.prostate_patient import draw_patient
from fedsuper.data.synthetic.prostate_scan import acquire, annotate
from fedsuper.data.synthetic.prostate_sites import OUTSIDE, Hospital, Scanner, hospital
from fedsuper.data.synthetic.shift import Difficulty
from fedsuper.errors import FedSuperError

DATASET = {"task": "prostate", "channels": 1, "regions": {"prostate": [1]}}
DEFAULT_VOLUMES = 8  # a site, on average
FEWEST_VOLUMES = 4  # a site must split into train, val and test
FEWEST_SLICES, MOST_SLICES = 10, 14
MOST_SLICES_OF_A_MAN = 17  # realistic glands are as tall as real ones
THICKNESS = 1.25  # times the pixel, at least: slices must be thicker than pixels are wide to be told from rows


def render(
    site: Hospital, key: list[int], size: int
) -> tuple[NDArray[np.int16], NDArray[np.uint8], NDArray[np.float64]]:
    """A volume of a site, its label (both in the file's axis order) and their affine; one `key`, one result."""
    rng = np.random.default_rng(key)
    scanner = site.scanner
    pixel = scanner.field_of_view * rng.normal(1, 0.02) / size
    step = max(scanner.slice_step, THICKNESS * pixel)
    balloon = bool(rng.random() < scanner.endorectal)
    patient = draw_man(site.mix, rng, balloon) if isinstance(site, PelvisHospital) else draw_patient(rng, balloon)
    needed = 2 * patient.half_height / step + rng.uniform(1.5, 3.5)  # a slice or more without gland at the ends
    most = MOST_SLICES_OF_A_MAN if isinstance(patient, Man) else MOST_SLICES
    grid = Grid.of(size, pixel, int(np.clip(np.ceil(needed), FEWEST_SLICES, most)), step, scanner.blur)
    if isinstance(patient, Man):
        signal, gland = draw_scene(grid, patient, rng)
    else:
        signal, gland = draw_pelvis(grid, patient, rng)
    image = acquire(signal, scanner, patient, grid, rng)
    label = annotate(gland, site.habit, patient, grid, rng)
    return _as_filed(image, label, scanner, (pixel, pixel, step), rng)


def _as_filed(
    image: NDArray[np.int16],
    label: NDArray[np.uint8],
    scanner: Scanner,
    spacing: tuple[float, float, float],
    rng: np.random.Generator,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Slices [Z, H, W] (columns to the left, rows to the back) turned to the scanner's axes, with a slanted affine."""
    from nibabel.orientations import apply_orientation, axcodes2ornt, inv_ornt_aff, ornt_transform

    lean = np.radians(scanner.tilt + rng.normal(0, 1))
    slant = np.array([[1, 0, 0], [0, np.cos(lean), -np.sin(lean)], [0, np.sin(lean), np.cos(lean)]])
    shape = image.shape[::-1]
    affine = np.eye(4)
    affine[:3, :3] = slant @ np.diag([-spacing[0], -spacing[1], spacing[2]])
    affine[:3, 3] = rng.normal(0, 8, 3) - affine[:3, :3] @ (np.array(shape) - 1) / 2
    turn = ornt_transform(axcodes2ornt("LPS"), axcodes2ornt(scanner.axes))
    filed = [apply_orientation(volume.transpose(2, 1, 0), turn) for volume in (image, label)]
    return filed[0], filed[1], affine @ inv_ornt_aff(turn, shape)


def write_site(folder: Path, site: Hospital, key: list[int], count: int, size: int) -> Iterator[int]:
    """Write a site's volumes as NIfTI pairs, yielding 1 after each."""
    for kind in ("images", "labels"):
        (folder / kind).mkdir(parents=True)
    for number in range(1, count + 1):
        image, label, affine = render(site, [*key, number], size)
        for kind, voxels in (("images", image), ("labels", label)):
            write_volume(folder / kind / f"{number:03d}.nii.gz", voxels, affine)
        yield 1


def _cases(sites: int, images: int | None) -> Cases:
    average = DEFAULT_VOLUMES if images is None else images
    if average < FEWEST_VOLUMES:
        raise FedSuperError(f"synth: --images must be at least {FEWEST_VOLUMES} volumes a site, got {average}")
    return Cases(average * sites, FEWEST_VOLUMES, outside=average)


def _hospital(index: int, difficulty: Difficulty, shift: tuple[str, ...]) -> Hospital:
    return hospital(index) if difficulty == "easy" else pelvis_hospital(index, shift)


def _beside(kind: str, difficulty: Difficulty) -> Hospital:
    return OUTSIDE if difficulty == "easy" else pelvis_sites.OUTSIDE[kind]


write_prostate = FederationWriter(DATASET, 96, _cases, _hospital, _beside, write_site).write
