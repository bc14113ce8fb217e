"""I2CVB: GE 1.5 T and Siemens 3 T, a folder per patient with the T2 series and the gland, both as DICOM."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from fedsuper.data.importers.base import PROSTATE, Importer, Survey
from fedsuper.data.importers.readers.dicom_series import read_series, series_folders
from fedsuper.data.importers.readers.raw_files import by_stem, files_under, in_folder, with_suffix
from fedsuper.data.importers.readers.volumes import NIFTI, pair_nifti, volume_entry

SCANNERS = ("ge", "siemens")
INCOMPLETE = {"Patient_428260": "a slice is missing from its gland"}


def survey(raw: Path, part: str | None) -> Survey:
    """`<scanner>/Patient N/{T2W, GT/prostate}` as DICOM, or `Image` and `Mask` of one converted to NIfTI."""
    found = Survey()
    files = [path for path in files_under(raw) if part is None or _scanner_of(path) == part]
    folders = series_folders(files)
    glands = {path.parent.parent: path for path in folders if path.name == "prostate" and path.parent.name == "GT"}
    for series in folders:
        if series.name != "T2W":
            continue
        patient = series.parent
        name = re.sub(r"\s+", "_", patient.name)
        if name in INCOMPLETE or patient not in glands:
            found.skip(name, INCOMPLETE.get(name, "no folder GT/prostate"))
            continue
        gland = glands[patient]
        found.entries.append(
            volume_entry(name, partial(read_series, series), partial(read_series, gland), "GT/prostate", None)
        )
    volumes = with_suffix(files, *NIFTI)
    pair_nifti(found, by_stem(in_folder(volumes, "Image")), by_stem(in_folder(volumes, "Mask")), (0, 1))
    found.note_merged("i2cvb", {scanner for path in files if (scanner := _scanner_of(path))})
    return found


def _scanner_of(path: Path) -> str | None:
    return next((place.lower() for place in reversed(path.parts) if place.lower() in SCANNERS), None)


I2CVB = Importer(
    "i2cvb",
    PROSTATE,
    "{GE,Siemens}/Patient N/T2W/*.dcm with GT/prostate/*.dcm (or Image/*.nii.gz with Mask/*.nii.gz)",
    survey,
    SCANNERS,
    about="prostate MRI of GE and Siemens scanners",
)
