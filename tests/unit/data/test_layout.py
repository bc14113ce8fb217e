"""Sites, items and cases as the folders name them."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
from data_roots import disc_label, retina_root, write_picture, write_volume

from fedsuper.data.layout import find_sites, list_items, resolve_site, scan_site, stem_of
from fedsuper.data.problems import DataProblem, some_of
from fedsuper.errors import FedSuperError


def test_sites_are_sorted_and_hidden_folders_are_none(tmp_path: Path) -> None:
    root = retina_root(tmp_path, sites=("b", "a", "c"))
    (root / ".cache" / "images").mkdir(parents=True)
    (root / "notes").mkdir()
    assert find_sites(root) == ["a", "b", "c"]


def test_site_n_is_the_nth_folder_unless_it_exists(tmp_path: Path) -> None:
    root = retina_root(tmp_path, sites=("a", "b"), images=1)
    assert resolve_site(root, "b") == resolve_site(root, "site-2") == root / "b"
    for name in ("site-3", "site-0", "site-01", "../a", "", "A", "site-" + "9" * 5000):
        with pytest.raises(FedSuperError, match="has no site"):
            resolve_site(root, name)


def test_a_site_that_was_taken_away_is_not_its_neighbor(tmp_path: Path) -> None:
    root = retina_root(tmp_path, sites=("site-1", "site-3"), images=1)
    assert resolve_site(root, "site-3") == root / "site-3"
    with pytest.raises(FedSuperError, match="has no site 'site-2'; name one of site-1, site-3$"):
        resolve_site(root, "site-2")


@pytest.mark.parametrize(
    ("file", "stem"), [("a.png", "a"), ("a.v2.nii.gz", "a.v2"), ("A.NII.GZ", "A"), ("b.Jpeg", "b"), ("c.txt", "c.txt")]
)
def test_stems(file: str, stem: str) -> None:
    assert stem_of(Path(file)) == stem


def test_items_pair_by_stem_across_endings(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    write_picture(folder / "images" / "b.JPG", np.zeros((8, 8, 3), np.uint8))
    write_picture(folder / "labels" / "b.PNG", disc_label((8, 8)))
    write_volume(folder / "images" / "a.nii", np.zeros((4, 4, 2), np.uint8))
    write_volume(folder / "labels" / "a.nii.gz", np.zeros((4, 4, 2), np.uint8))
    (folder / "images" / ".DS_Store").write_text("")
    (folder / "images" / "._b.jpg").write_text("")
    items = list_items(folder, require_labels=True)
    assert [(item.name, item.image.name, item.label.name, item.case) for item in items] == [
        ("a", "a.nii", "a.nii.gz", "a"),
        ("b", "b.JPG", "b.PNG", "b"),
    ]


def test_labels_are_optional_where_they_are_not_required(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    write_picture(folder / "images" / "a.png", np.zeros((8, 8), np.uint8))
    (item,) = list_items(folder, require_labels=False)
    assert item.label is None
    write_picture(folder / "labels" / "a.png", np.zeros((8, 8), np.uint8))
    (item,) = list_items(folder, require_labels=False)
    assert item.label == folder / "labels" / "a.png"


@pytest.mark.parametrize("text", ["name,case\n", "name;case\n", "\ufeffcase, name ,age\n"])
def test_cases_csv_as_spreadsheets_write_it(tmp_path: Path, text: str) -> None:
    folder = retina_root(tmp_path, sites=("a",)) / "a"
    columns = [column.strip("\ufeff ") for column in text.strip().replace(";", ",").split(",")]
    comma = ";" if ";" in text else ","
    rows = [{"name": f"eye{i}", "case": f"p{i // 2}", "age": "70"} for i in range(4)]
    body = "\r\n".join(comma.join(row[column] for column in columns) for row in rows)
    (folder / "cases.csv").write_text(text + body + "\r\n", encoding="utf-8")
    assert [item.case for item in list_items(folder, True)] == ["p0", "p0", "p1", "p1"]


def test_the_first_of_many_problems_counts_the_rest(tmp_path: Path) -> None:
    folder = retina_root(tmp_path, sites=("a",)) / "a"
    for label in (folder / "labels").iterdir():
        label.unlink()
    assert len(scan_site(folder, True).problems) == 4
    with pytest.raises(
        FedSuperError, match=r"eye0\.png: has no label; .* \(3 more such problems: run fedsuper doctor\)"
    ):
        list_items(folder, True)


def test_a_problem_survives_the_way_between_processes() -> None:
    problem = DataProblem("a.png", "is\nbroken", "mend it")
    rebuilt = copy.copy(problem)  # by the same protocol that carries exceptions between processes
    assert str(rebuilt) == str(problem) == "a.png: is broken; mend it"
    assert some_of(list("abcde")) == "a, b, c and 2 more"
