"""Error lines leave a site without the names of files and patients."""

from __future__ import annotations

from pathlib import Path

import pytest
from data_roots import retina_root

from fedsuper.data.problems import DataProblem
from fedsuper.errors import FedSuperError
from fedsuper.federation.outlet.redaction import redacted


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = retina_root(tmp_path / "root", images=2) / "a"
    (folder / "images" / "eye0.png").rename(folder / "images" / "Jane Doe 1970.png")
    (folder / "cases.csv").write_text("name,case\nJane Doe 1970,MRN-4711\neye1,MRN-4712\n")
    return folder


def test_no_name_of_the_site_is_left(site: Path) -> None:
    secrets = ["Jane", "Doe", "4711", "MRN", str(site), "eye1"]
    problems = [
        DataProblem(site / "images" / "Jane Doe 1970.png", "cannot be read as an image", "replace the file"),
        DataProblem(site, "patient MRN-4711 has images in train and test", "correct cases.csv"),
        FedSuperError(f"{site}/labels/Jane Doe 1970.png: holds 7, and eye1 too"),
        FedSuperError("Jane Doe 1970: its mask is empty (case MRN-4711)"),
        FedSuperError("'/mnt/archive/scan 1.nii.gz' and C:\\\\data\\\\x.dcm cannot be opened"),
    ]
    for problem in problems:
        line = redacted(problem, [site])
        assert not [secret for secret in [*secrets, "archive", "x.dcm"] if secret in line], line
    assert "cannot be read as an image" in redacted(problems[0], [site])


def test_what_is_no_name_stays_readable(site: Path) -> None:
    line = "site-1: 3/4 of the images and/or labels differ; see docs/how-to/bring-your-data.md, or local/fedsuper.yaml"
    assert redacted(FedSuperError(line), [site]) == line
