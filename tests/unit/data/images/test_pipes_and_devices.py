"""What is no file is refused and never waited for: pipes, devices, links in a circle."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from data_roots import retina_root

from fedsuper.data.doctor.examine import examine
from fedsuper.data.images.io import read_image, read_label
from fedsuper.data.problems import DataProblem
from fedsuper.data.text_files import read_json_object
from fedsuper.inference.predict.inputs import find_images


def named_pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("name", ["eye.png", "scan.nii.gz", "scan.nii", "eye.dcm", "eye.tif"])
@pytest.mark.parametrize("make", [named_pipe, device, loop])
@pytest.mark.timeout(20)
def test_what_is_no_file_is_refused_and_never_waited_for(
    tmp_path: Path, make: Callable[[Path], None], name: str
) -> None:
    make(tmp_path / name)
    for reader in (read_image, read_label):
        if name.endswith(".dcm"):
            pytest.importorskip("pydicom", reason="pip install 'fedsuper[dicom]'")
        with pytest.raises(DataProblem):
            reader(tmp_path / name)
    images, problems = find_images([tmp_path])
    assert images == [tmp_path / name] or problems


@pytest.mark.parametrize("make", [named_pipe, device, loop])
@pytest.mark.timeout(60)
def test_the_doctor_names_what_is_no_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    root = retina_root(tmp_path / "root")
    for broken in ("a/images/eye0.png", "b/labels/eye1.png", "b/cases.csv"):
        (root / broken).unlink(missing_ok=True)
        make(root / broken)
    errors = {finding.file for finding in examine(root).findings if finding.level == "error"}
    assert errors >= {"a/images/eye0.png", "b/labels/eye1.png"}
    if make is not loop:
        assert "b/cases.csv" in errors


@pytest.mark.parametrize("make", [named_pipe, device])
@pytest.mark.timeout(20)
def test_text_is_not_read_from_a_pipe_or_device(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "dataset.json")
    with pytest.raises(DataProblem, match="is not a file"):
        read_json_object(tmp_path / "dataset.json")
