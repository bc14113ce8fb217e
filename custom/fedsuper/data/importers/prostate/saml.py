"""The multi-site prostate set of SAML: six hospitals, one folder each, NIfTI."""

from __future__ import annotations

import re
from pathlib import Path

from fedsuper.data.importers.base import PROSTATE, Importer, Survey
from fedsuper.data.importers.readers.raw_files import by_stem, files_under, with_suffix
from fedsuper.data.importers.readers.volumes import NIFTI, pair_nifti

# The folder names of the two releases: the later one names the hospitals behind ISBI and ISBI_1.5.
HOSPITALS = {
    "runmc": ("runmc", "isbi"),
    "bmc": ("bmc", "isbi_1.5"),
    "i2cvb": ("i2cvb",),
    "ucl": ("ucl",),
    "bidmc": ("bidmc",),
    "hk": ("hk",),
}
SEGMENTATION = re.compile(r"(.+)_segmentation", re.IGNORECASE)


def survey(raw: Path, part: str | None) -> Survey:
    """`<hospital>/CaseNN.nii.gz` with `CaseNN_segmentation.nii.gz`; several hospitals get their name into the names."""
    found = Survey()
    hospitals: dict[str, list[Path]] = {}
    for path in with_suffix(files_under(raw), *NIFTI):
        hospital = _hospital_of(path.parent.name)
        if hospital and part in (None, hospital):
            hospitals.setdefault(hospital, []).append(path)
    for hospital, files in sorted(hospitals.items()):
        labels = by_stem(files, lambda stem: match[1] if (match := SEGMENTATION.fullmatch(stem)) else None)
        images = by_stem(files, lambda stem: None if SEGMENTATION.fullmatch(stem) else stem)
        pair_nifti(found, images, labels, (0, 1, 2), prefix=f"{hospital}-" if len(hospitals) > 1 else "")
    found.note_merged("saml", hospitals)
    return found


def _hospital_of(folder: str) -> str | None:
    name = re.sub(r"^[a-f]-", "", folder.lower())  # some copies number the folders: A-ISBI, B-ISBI_1.5
    return next((hospital for hospital, names in HOSPITALS.items() if name in names), None)


SAML = Importer(
    "saml",
    PROSTATE,
    "the folders RUNMC, BMC, I2CVB, UCL, BIDMC, HK (or one of them) with CaseNN.nii.gz and CaseNN_segmentation.nii.gz",
    survey,
    tuple(HOSPITALS),
    about="prostate MRI of six hospitals",
)
