"""Medical Segmentation Decathlon, task 5: volumes of two channels (T2, ADC), labels 1 peripheral, 2 transition zone."""

from __future__ import annotations

from pathlib import Path

from fedsuper.data.importers.base import PROSTATE, Importer, Survey
from fedsuper.data.importers.readers.raw_files import by_stem, files_under, in_folder, with_suffix
from fedsuper.data.importers.readers.volumes import NIFTI, pair_nifti

T2 = 0


def survey(raw: Path, part: str | None) -> Survey:
    """`imagesTr` with `labelsTr`; the test images have no labels and are not looked at."""
    found = Survey()
    files = with_suffix(files_under(raw), *NIFTI)
    images, labels = by_stem(in_folder(files, "imagesTr")), by_stem(in_folder(files, "labelsTr"))
    pair_nifti(found, images, labels, (0, 1, 2), channel=T2)
    return found


MSD_PROSTATE = Importer(
    "msd-prostate",
    PROSTATE,
    "Task05_Prostate/imagesTr/prostate_NN.nii.gz with labelsTr/prostate_NN.nii.gz",
    survey,
    about="Medical Segmentation Decathlon, task 5",
)
