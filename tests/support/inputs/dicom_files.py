"""DICOM files written by hand: a series of slices, a photograph. Needs the extra `dicom`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

RANDOM = np.random.default_rng(5)
VOXELS = RANDOM.integers(0, 900, (4, 10, 12), dtype=np.int16)  # slices, rows, columns
ORIENTATION = [1.0, 0, 0, 0, 0.96, 0.28]  # rows tilted about the left-right axis


def new_file(path: Path, **values) -> object:
    """A minimal MR image file."""
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, MRImageStorage, generate_uid

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = MRImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file = FileDataset(path, {}, file_meta=meta, preamble=b"\0" * 128)
    defaults = {
        "SOPClassUID": MRImageStorage,
        "SOPInstanceUID": meta.MediaStorageSOPInstanceUID,
        "StudyInstanceUID": "1.2.3",
        "SeriesInstanceUID": "1.2.3.4",
        "FrameOfReferenceUID": "1.2.3.5",
        "Modality": "MR",
        "PatientName": "Test^Case",
        "PatientID": "1",
        "PatientBirthDate": "",
        "PatientSex": "",
        "StudyID": "1",
        "StudyDate": "20200101",
        "StudyTime": "000000",
        "AccessionNumber": "",
        "ReferringPhysicianName": "",
        "Manufacturer": "none",
        "SeriesNumber": 1,
        "SamplesPerPixel": 1,
        "PhotometricInterpretation": "MONOCHROME2",
        "BitsAllocated": 16,
        "BitsStored": 16,
        "HighBit": 15,
        "PixelRepresentation": 1,
    }
    for key, value in (defaults | values).items():
        setattr(file, key, value)
    path.parent.mkdir(parents=True, exist_ok=True)
    file.save_as(path, enforce_file_format=True)
    return file


def write_series(folder: Path, **values) -> Path:
    """Four slices, written in an order that is not theirs."""
    normal = np.cross(ORIENTATION[:3], ORIENTATION[3:])
    for number, index in enumerate((2, 0, 3, 1)):
        settings = {
            "Rows": 10,
            "Columns": 12,
            "PixelSpacing": [0.7, 0.5],
            "SliceThickness": 3.0,
            "ImageOrientationPatient": ORIENTATION,
            "ImagePositionPatient": list(np.array([-20.0, 15.0, 40.0]) + index * 3.3 * normal),
            "InstanceNumber": index + 1,
            "RescaleSlope": 2.0,
            "RescaleIntercept": -5.0,
            "PixelData": VOXELS[index].tobytes(),
        }
        new_file(folder / f"{number}.dcm", **(settings | values))
    return folder


def write_photograph(path: Path, pixels: np.ndarray, **values) -> Path:
    """An ophthalmic photograph: colors, and no place in the patient."""
    color = {
        "Rows": pixels.shape[0],
        "Columns": pixels.shape[1],
        "SamplesPerPixel": 3,
        "PlanarConfiguration": 0,
        "PhotometricInterpretation": "RGB",
        "BitsAllocated": 8,
        "BitsStored": 8,
        "HighBit": 7,
        "PixelRepresentation": 0,
        "Modality": "OP",
    }
    new_file(path, **(color | {"PixelData": pixels.tobytes()} | values))
    return path
