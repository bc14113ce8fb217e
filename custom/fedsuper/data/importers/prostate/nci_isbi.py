"""NCI-ISBI 2013: Prostate-3T and PROSTATE-DIAGNOSIS; labels 1 peripheral zone, 2 central gland."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from fedsuper.data.importers.base import PROSTATE, Importer, Survey
from fedsuper.data.importers.readers.dicom_series import read_series, series_folders
from fedsuper.data.importers.readers.raw_files import files_under, with_suffix
from fedsuper.data.importers.readers.volumes import NIFTI, read_itk, read_nifti, volume_entry
from fedsuper.data.layout import stem_of

COLLECTIONS = {"3t": "Prostate3T", "dx": "ProstateDx"}
PATIENT = re.compile(r"(Prostate(?:3T|Dx)-\d\d-\d{4})", re.IGNORECASE)
MISMATCHED = {"ProstateDx-01-0055": "its image and label are known not to belong together"}
LABEL_FOLDERS = ("mask", "masks", "label", "labels")


def survey(raw: Path, part: str | None) -> Survey:
    """Labels are NRRD (or NIfTI in a folder Mask or labels), images NIfTI or DICOM folders, found by patient id."""
    found = Survey()
    files = files_under(raw)
    volumes = with_suffix(files, *NIFTI)
    labels = _by_patient([*_corrected_first(with_suffix(files, ".nrrd")), *filter(_is_label, volumes)])
    images = {
        **_by_patient(series_folders(files)),
        **_by_patient([path for path in volumes if not _is_label(path)]),
    }
    for name, image in sorted(images.items()):
        if part is not None and not name.startswith(COLLECTIONS[part]):
            continue
        label = labels.get(name)
        if name in MISMATCHED or label is None:
            found.skip(name, MISMATCHED.get(name, f"no label {name}.nrrd"))
            continue
        read_image = partial(read_series if image.is_dir() else read_nifti, image)
        read_label = partial(read_itk if label.suffix == ".nrrd" else read_nifti, label)
        found.entries.append(volume_entry(name, read_image, read_label, label.name, (0, 1, 2)))
    if part is None:
        prefixes = {name[:10] for name in images}
        found.note_merged("nci-isbi", [key for key, prefix in COLLECTIONS.items() if prefix in prefixes])
    return found


def _is_label(path: Path) -> bool:
    return any(place.lower() in LABEL_FOLDERS for place in path.parts[-3:-1])


def _corrected_first(paths: list[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: ("corrected" not in path.name.lower(), path))


def _by_patient(paths: list[Path]) -> dict[str, Path]:
    """The paths by the patient id in their file name, or in the folders above where the name has none."""
    found: dict[str, Path] = {}
    for path in paths:
        match = PATIENT.match(stem_of(path)) or next(filter(None, map(PATIENT.fullmatch, reversed(path.parts))), None)
        if match:
            found.setdefault(match[1], path)
    return found


NCI_ISBI = Importer(
    "nci-isbi",
    PROSTATE,
    "Prostate{3T,Dx}-01-NNNN.nii.gz (or the DICOM folders of these patients) with Prostate{3T,Dx}-01-NNNN*.nrrd",
    survey,
    tuple(COLLECTIONS),
    about="prostate MRI at 3 T and 1.5 T with coil",
)
