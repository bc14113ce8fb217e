"""PROSTATEx: T2 volumes (converted to NIfTI) with the whole-gland masks of Cuocolo and colleagues."""

from __future__ import annotations

import re
from pathlib import Path

from fedsuper.data.importers.base import PROSTATE, Importer, Survey
from fedsuper.data.importers.readers.raw_files import bare_name, by_stem, files_under, in_folder, with_suffix
from fedsuper.data.importers.readers.volumes import NIFTI, pair_nifti
from fedsuper.data.text_files import read_text

MASK_FOLDERS = ("mask_prostate", "Mask", "masks")
IMAGE_FOLDERS = ("Images", "Image", "T2")
LIST = "image_list.csv"  # which of a patient's T2 series the mask was drawn on
PATIENT = re.compile(r"(ProstateX-\d{4})(_.*)?", re.IGNORECASE)


def patient_of(stem: str) -> str | None:
    """`ProstateX-0012` of `ProstateX-0012_t2_tse_tra_4`."""
    match = PATIENT.fullmatch(stem)
    return match[1] if match else None


def survey(raw: Path, part: str | None) -> Survey:
    """One T2 volume and one whole-gland mask per patient; zone and lesion masks are not looked at."""
    found = Survey()
    everything = files_under(raw)
    files = with_suffix(everything, *NIFTI)
    listed = {line.strip() for path in with_suffix(everything, LIST) for line in read_text(path).splitlines()}
    by_list = sorted(in_folder(files, *IMAGE_FOLDERS), key=lambda path: (bare_name(path) not in listed, path))
    images = by_stem(by_list, patient_of)
    labels = by_stem(in_folder(files, *MASK_FOLDERS), patient_of)
    pair_nifti(found, images, labels, (0, 1, 2, 3, 4))
    return found


PROSTATEX = Importer(
    "prostatex",
    PROSTATE,
    "Images/ProstateX-NNNN*.nii.gz (T2, converted from DICOM) with mask_prostate/ProstateX-NNNN.nii.gz",
    survey,
    about="prostate MRI with whole-gland masks",
)
