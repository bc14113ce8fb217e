"""Fingerprints: aggregates only, and a site that does not fit is named before anyone trains."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from data_roots import prostate_root, retina_root, write_picture

from fedsuper.data.fingerprint import MIN_CASES, compare_fingerprints, describe_fingerprints, fingerprint
from fedsuper.data.layout import list_items
from fedsuper.data.task import Task, read_task
from fedsuper.errors import FedSuperError


def print_of(root: Path, site: str) -> dict:
    return fingerprint(root / site, read_task(root), list_items(root / site, True))


def test_it_says_what_the_site_holds(tmp_path: Path) -> None:
    root = retina_root(tmp_path, images=6)
    one = print_of(root, "a")
    assert one["cases"] == one["images"] == 6 and one["channels"] == 3
    assert one["size"]["height"] == {"mean": 32.0, "sd": 0.0}
    assert 100 < one["intensity"]["q50"]["mean"] < 155
    assert 0 < one["regions"]["cup"]["area"]["mean"] < one["regions"]["disc"]["area"]["mean"] < 1
    assert one["spacing"] is None
    assert json.loads(json.dumps(one)) == one


def test_volumes_have_a_spacing(tmp_path: Path) -> None:
    root = prostate_root(tmp_path, volumes=5)
    assert print_of(root, "x")["spacing"]["slices"] == {"mean": 3.0, "sd": 0.0}


def test_few_patients_are_not_described(tmp_path: Path) -> None:
    root = retina_root(tmp_path, images=MIN_CASES)
    folder, task = root / "a", read_task(root)
    (folder / "cases.csv").write_text("name,case\n" + "".join(f"eye{i},p{i // 2}\n" for i in range(MIN_CASES)))
    one = print_of(root, "a")
    assert one["channels"] == 3 and one["task"] == task.to_json()
    assert one["cases"] is one["images"] is one["size"] is one["intensity"] is None
    assert one["regions"] == {"disc": None, "cup": None}


def test_a_region_of_few_patients_is_not_described(tmp_path: Path) -> None:
    root = retina_root(tmp_path, images=6)
    for index in range(3):
        write_picture(root / "a" / "labels" / f"eye{index}.png", np.eye(32, dtype=np.uint8))
    one = print_of(root, "a")
    assert one["regions"]["disc"] is not None and one["regions"]["cup"] is None


def test_no_name_of_a_patient_is_in_it(tmp_path: Path) -> None:
    root = retina_root(tmp_path, images=6)
    assert "eye" not in json.dumps(print_of(root, "a"))


def test_a_broken_folder_stops_with_the_file(tmp_path: Path) -> None:
    root = retina_root(tmp_path)
    (root / "a" / "images" / "eye2.png").write_bytes(b"torn")
    with pytest.raises(FedSuperError, match=r"eye2\.png"):
        print_of(root, "a")
    with pytest.raises(FedSuperError, match="has no images"):
        fingerprint(root / "a", read_task(root), [])


def test_sites_that_fit_are_no_problem(tmp_path: Path) -> None:
    root = retina_root(tmp_path, images=6)
    prints = {site: print_of(root, site) for site in ("a", "b")}
    assert compare_fingerprints(prints, read_task(root)) == []
    table = describe_fingerprints(prints | {"c": {"error": "x"}}).splitlines()
    assert table[0].split()[:4] == ["site", "cases", "images", "channels"]
    assert table[1].split()[:4] == ["a", "6", "6", "3"] and table[3].split() == ["c", "broken"]


def test_one_gray_picture_does_not_stop_a_site_but_a_gray_site_does(tmp_path: Path) -> None:
    root = retina_root(tmp_path, sites=("a", "b", "c"), images=6)
    gray = np.random.default_rng(0).integers(0, 256, (6, 32, 32), dtype=np.uint8)
    write_picture(root / "a" / "images" / "eye0.png", gray[0])
    for index in range(6):
        write_picture(root / "b" / "images" / f"eye{index}.png", gray[index])
    prints = {site: print_of(root, site) for site in "abc"}
    (problem,) = compare_fingerprints(prints, read_task(root))
    assert problem.startswith("b: its images have 1 channel(s), those of the other sites 3")


def test_other_regions_or_channels_and_broken_folders_are_named(tmp_path: Path) -> None:
    root = retina_root(tmp_path, sites=("a", "b", "c"), images=6)
    task = read_task(root)
    prints = {site: print_of(root, site) for site in "ab"}
    other = Task("retina", 3, {"disc": (1,), "cup": (2,)})
    prints["b"] = fingerprint(root / "b", other, list_items(root / "b", True))
    prints["c"] = {"error": "images/x.png: is empty (0 bytes); restore it"}
    problems = compare_fingerprints(prints, task)
    assert [problem.split(":")[0] for problem in problems] == ["b", "c"]
    assert "regions" in problems[0] and "restore it" in problems[1]


def test_no_header_of_the_table_is_glued_to_another(tmp_path: Path) -> None:
    root = retina_root(tmp_path, images=6)
    head = describe_fingerprints({"a": print_of(root, "a")}).splitlines()[0]
    assert re.split(r"  +", head)[:7] == ["site", "cases", "images", "channels", "height", "width", "median"]
    assert re.split(r"  +", head)[7:] == [f"{name} area" for name in read_task(root).regions]
