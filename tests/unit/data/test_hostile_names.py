"""Names that would be taken for something else: the doctor and a run refuse the same ones, in the same words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from data_roots import RETINA, disc_label, retina_root, write_picture

from fedsuper.data.doctor.examine import examine
from fedsuper.data.layout import find_sites, list_items
from fedsuper.data.problems import DataProblem
from fedsuper.data.task import Task


@pytest.mark.parametrize("name", ["global", "Global", "selector", "server", "a\nb", "a\tb", " a", "a ", "B"])
def test_a_site_name_that_means_something_else_is_refused_by_doctor_and_run(tmp_path: Path, name: str) -> None:
    root = retina_root(tmp_path / "root", sites=("a", "b", name))
    with pytest.raises(DataProblem) as refused:
        find_sites(root)
    assert "\n" not in str(refused.value)
    found = [finding for finding in examine(root).findings if finding.level == "error"]
    assert refused.value.what in {finding.what for finding in found}


@pytest.mark.parametrize("name", ["a", "Klinik Süd", "site-1", "globalhealth", "st. mary's"])
def test_an_ordinary_name_is_none(tmp_path: Path, name: str) -> None:
    root = retina_root(tmp_path / "root", sites=(name, "zz"))
    assert find_sites(root) == sorted([name, "zz"])
    assert examine(root).count("error") == 0


def test_a_photograph_named_like_a_slice_is_refused(tmp_path: Path) -> None:
    root = retina_root(tmp_path / "root")
    for folder, pixels in (("images", disc_label((32, 32))), ("labels", disc_label((32, 32)))):
        write_picture(root / "a" / folder / "scan#0001.png", pixels)
    with pytest.raises(DataProblem, match="named like slice 0001 of a volume"):
        list_items(root / "a", require_labels=True)
    assert any("named like slice" in finding.what for finding in examine(root).findings)
    for folder in ("images", "labels"):
        (root / "a" / folder / "scan#0001.png").rename(root / "a" / folder / "scan#1.png")
    assert "scan#1" in {item.name for item in list_items(root / "a", require_labels=True)}


@pytest.mark.parametrize("name", ["n", "mean", "site", "image", "case", "model", "seed"])
def test_a_region_named_like_a_column_of_the_results_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataProblem, match=f"region name '{name}'"):
        Task.from_json(RETINA | {"regions": {name: [1]}})
    root = retina_root(tmp_path / "root")
    (root / "dataset.json").write_text(json.dumps(RETINA | {"regions": {name: [1, 2]}}))
    (finding,) = examine(root).findings
    assert finding.level == "error" and name in finding.what
