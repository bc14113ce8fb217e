"""DICOM series that cannot be used: each is named in one line. Needs the extra `dicom`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dicom_files import ORIENTATION, write_series

from fedsuper.data.images import decoding
from fedsuper.data.images.io import read_image
from fedsuper.data.problems import DataProblem

pydicom = pytest.importorskip("pydicom", reason="pip install 'fedsuper[dicom]'")


def _cut(folder: Path) -> None:
    (folder / "1.dcm").write_bytes((folder / "1.dcm").read_bytes()[:-50])


def _other_series(folder: Path) -> None:
    data = pydicom.dcmread(folder / "1.dcm")
    data.SeriesInstanceUID = "1.2.3.99"
    data.save_as(folder / "1.dcm")


def _twice(folder: Path) -> None:
    (folder / "copy.dcm").write_bytes((folder / "1.dcm").read_bytes())


def _turned(folder: Path) -> None:
    data = pydicom.dcmread(folder / "1.dcm")
    data.ImageOrientationPatient = [0, 1, 0, 0, 0, 1]
    data.save_as(folder / "1.dcm")


def _without_place(folder: Path) -> None:
    data = pydicom.dcmread(folder / "1.dcm")
    del data.ImagePositionPatient
    data.save_as(folder / "1.dcm")


def _report(folder: Path) -> None:
    data = pydicom.dcmread(folder / "1.dcm")
    del data.Rows
    data.save_as(folder / "1.dcm")


def _text(folder: Path) -> None:
    (folder / "1.dcm").write_text("not DICOM")


def _emptied(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


def _missing_slice(folder: Path) -> None:
    normal = np.cross(ORIENTATION[:3], ORIENTATION[3:])
    data = pydicom.dcmread(folder / "2.dcm")
    data.ImagePositionPatient = list(np.array([-20.0, 15.0, 40.0]) + 5 * 3.3 * normal)
    data.save_as(folder / "2.dcm")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_cut, "cannot be read"),
        (_other_series, "mixes 2 series"),
        (_twice, "two slices at the same place"),
        (_turned, "different orientation"),
        (_without_place, "without a place"),
        (_report, "without pixels"),
        (_text, "cannot be read"),
        (_emptied, "holds no DICOM file"),
        (_missing_slice, "mm apart"),
    ],
)
def test_broken_series_are_named(tmp_path: Path, spoil, words: str) -> None:
    folder = write_series(tmp_path / "scan")
    spoil(folder)
    with pytest.raises(DataProblem, match=words) as problem:
        read_image(folder)
    assert "\n" not in str(problem.value)


def test_without_pydicom_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_series(tmp_path / "scan")

    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(decoding.importlib, "import_module", absent)
    with pytest.raises(DataProblem, match=r"pydicom is not installed; pip install 'fedsuper\[dicom\]'"):
        read_image(folder)
