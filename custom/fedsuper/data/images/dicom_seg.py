"""Masks as DICOM SEG, through the extra `dicom` (highdicom): a segment per label value, tied to the source files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsuper import __version__
from fedsuper.data.images.dicom import needed_for_dicom as needed
from fedsuper.data.problems import DataProblem
from fedsuper.files import atomic_write

SERIES_NUMBER = 1000  # apart from what scanners count


def write_segmentation(
    path: Path, planes: NDArray[np.uint8], datasets: list[Any], names: Mapping[int, str] | None = None
) -> None:
    """Write label values `[Z, rows, columns]`, slices in the order of `datasets`, as a binary segmentation.

    `names` says what a label value stands for; the segment of another is called `label <value>`.
    """
    highdicom = needed("highdicom", path)
    values = [int(value) for value in np.unique(planes) if value] or [1]
    numbers = np.searchsorted(values, planes) + 1
    segments = [
        _segment(path, number, (names or {}).get(value, f"label {value}"))
        for number, value in enumerate(values, start=1)
    ]
    try:
        segmentation = highdicom.seg.Segmentation(
            source_images=datasets,
            pixel_array=np.where(planes != 0, numbers, 0).astype(np.uint8),
            segmentation_type=highdicom.seg.SegmentationTypeValues.BINARY,
            segment_descriptions=segments,
            series_instance_uid=highdicom.UID(),
            series_number=SERIES_NUMBER,
            sop_instance_uid=highdicom.UID(),
            instance_number=1,
            manufacturer="FedSuper",
            manufacturer_model_name="FedSuper",
            software_versions=__version__,
            device_serial_number="none",
            omit_empty_frames=bool(planes.any()),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # a source without what a SEG must repeat of it
        reason = " ".join(str(error).split())[:160]
        raise DataProblem(path, f"cannot be written as DICOM SEG ({reason})", "write NIfTI or PNG instead") from error
    atomic_write(path, segmentation.save_as)


def _segment(path: Path, number: int, label: str) -> Any:
    highdicom, pydicom = needed("highdicom", path), needed("pydicom", path)
    codes = pydicom.sr.codedict.codes
    return highdicom.seg.SegmentDescription(
        segment_number=number,
        segment_label=label[:64],
        segmented_property_category=codes.SCT.Tissue,
        segmented_property_type=codes.SCT.Tissue,
        algorithm_type=highdicom.seg.SegmentAlgorithmTypeValues.AUTOMATIC,
        algorithm_identification=highdicom.AlgorithmIdentificationSequence(
            name="FedSuper", version=__version__, family=codes.DCM.ArtificialIntelligence
        ),
    )
