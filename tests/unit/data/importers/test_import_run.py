"""Running imports: parts, several sets in one site, disagreements, interruptions, links."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from import_files import photograph, save
from import_trees import TREES

from fedsuper.data.importers import import_dataset
from fedsuper.data.layout import list_items
from fedsuper.data.text_files import read_table
from fedsuper.errors import FedSuperError


def names(site: Path) -> list[str]:
    return [item.name for item in list_items(site, require_labels=True)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("promise12:hk", ["Case49"]),
        ("promise12:runmc", ["Case14"]),
        ("saml:runmc", ["Case00", "Case01"]),
        ("saml:bidmc", ["Case00"]),
        ("dofe:domain1", ["gdrishtiGS_002", "ndrishtiGS_004"]),
        ("nci-isbi:dx", ["ProstateDx-01-0006"]),
        ("refuge:train", ["g0001", "n0001"]),
        ("refuge:validation", ["V0001"]),
        ("riga:magrabia", ["MagrabiFemale-image3"]),
        ("riga:binrushed", ["BinRushed1-Corrected-image1", "BinRushed2-image1"]),
    ],
)
def test_one_part_of_a_set(source, expected, tmp_path):
    TREES[source.partition(":")[0]](tmp_path / "raw")
    result = import_dataset(source, tmp_path / "raw", tmp_path / "root/site")
    assert names(tmp_path / "root/site") == expected
    assert not result.notes


@pytest.mark.parametrize(
    ("source", "folder", "expected"),
    [
        ("saml", "RUNMC", ["Case00", "Case01"]),
        ("dofe", "Fundus/Domain2", ["G-1-L"]),
        ("riga", "MESSIDOR", ["MESSIDOR-image7"]),
    ],
)
def test_a_hospitals_own_folder_is_one_part(source, folder, expected, tmp_path):
    TREES[source](tmp_path / "raw")
    result = import_dataset(source, tmp_path / "raw" / folder, tmp_path / "root/site")
    assert names(tmp_path / "root/site") == expected and not result.notes


def test_a_hospitals_folder_may_be_here_or_a_link(tmp_path, monkeypatch):
    TREES["saml"](tmp_path / "raw")
    (tmp_path / "raw/RUNMC").rename(tmp_path / "store")
    (tmp_path / "raw/RUNMC").symlink_to(tmp_path / "store")
    import_dataset("saml:runmc", tmp_path / "raw", tmp_path / "root/linked")
    monkeypatch.chdir(tmp_path / "raw/HK")
    import_dataset("saml", Path("."), tmp_path / "root/here")
    assert names(tmp_path / "root/linked") == ["Case00", "Case01"] and names(tmp_path / "root/here") == ["Case38"]


def test_several_hospitals_in_one_site_are_remarked(tmp_path):
    TREES["saml"](tmp_path / "raw")
    (note,) = import_dataset("saml", tmp_path / "raw", tmp_path / "root/site").notes
    assert "bidmc, hk, runmc" in note and "saml:bidmc" in note


def test_the_summary_tells_counts_remarks_and_omissions(tmp_path):
    tree = TREES["refuge"](tmp_path / "raw")
    tree.label.unlink()
    lines = import_dataset("refuge", tmp_path / "raw", tmp_path / "root/site").summary().splitlines()
    assert "3 images with labels (6 files written, 0 already there, 1 cases skipped)" in lines[0]
    assert lines[1].startswith("note: train, validation differ")
    assert lines[2:] == ["skipped T0001: no mask T0001.bmp or .png"]


def test_parts_in_two_sites_of_one_root(tmp_path):
    TREES["saml"](tmp_path / "raw")
    for hospital in ("hk", "bidmc"):
        import_dataset(f"saml:{hospital}", tmp_path / "raw", tmp_path / "root" / hospital)
    assert names(tmp_path / "root/hk") == ["Case38"] and names(tmp_path / "root/bidmc") == ["Case00"]


def test_two_sets_in_one_site_name_every_image_in_cases(tmp_path):
    for source in ("i2cvb", "promise12"):
        TREES[source](tmp_path / source)
        import_dataset(source, tmp_path / source, tmp_path / "root/site")
        (tmp_path / "root/site/images/.DS_Store").write_bytes(b"what a desktop leaves is no image")
    rows = read_table(tmp_path / "root/site/cases.csv", ("name", "case"))
    assert [row["name"] for row in rows] == names(tmp_path / "root/site")
    assert len(rows) == 7


def test_images_without_patients_get_no_cases_file(tmp_path):
    TREES["refuge"](tmp_path / "raw")
    import_dataset("refuge", tmp_path / "raw", tmp_path / "root/site")
    assert not (tmp_path / "root/site/cases.csv").exists()


def test_another_task_in_the_root_is_one_line(tmp_path):
    for source in ("refuge", "saml"):
        TREES[source](tmp_path / source)
    import_dataset("refuge", tmp_path / "refuge", tmp_path / "root/eyes")
    with pytest.raises(FedSuperError, match=r"dataset.json holds the task retina .* this set is prostate"):
        import_dataset("saml", tmp_path / "saml", tmp_path / "root/glands")
    assert not (tmp_path / "root/glands").exists()


def test_other_content_under_the_same_name_is_never_overwritten(tmp_path):
    TREES["refuge"](tmp_path / "raw")
    site = tmp_path / "root/site"
    import_dataset("refuge", tmp_path / "raw", site)
    (site / "labels/g0001.png").unlink()
    before = {path: path.read_bytes() for path in site.rglob("*.*")}
    save(tmp_path / "raw/Training400/Glaucoma/g0001.jpg", photograph(77))
    with pytest.raises(FedSuperError, match=r"already holds g0001.jpg with other content"):
        import_dataset("refuge", tmp_path / "raw", site)
    assert {path: path.read_bytes() for path in site.rglob("*.*")} == before


def test_a_gap_in_the_site_is_filled_by_running_again(tmp_path):
    TREES["refuge"](tmp_path / "raw")
    site = tmp_path / "root/site"
    import_dataset("refuge", tmp_path / "raw", site)
    (site / "labels/g0001.png").unlink()
    assert import_dataset("refuge", tmp_path / "raw", site).written == 1
    assert len(names(site)) == 4


def test_an_interrupted_import_leaves_nothing(tmp_path):
    TREES["saml"](tmp_path / "raw")

    def stop(done: int, total: int) -> None:
        assert total == 4
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_dataset("saml", tmp_path / "raw", tmp_path / "deep/er/root/site", progress=stop)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["raw"]


def test_an_interrupted_import_leaves_an_old_site_alone(tmp_path):
    TREES["saml"](tmp_path / "raw")
    site = tmp_path / "root/site"
    import_dataset("saml:hk", tmp_path / "raw", site)
    before = sorted(site.parent.rglob("*"))

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_dataset("saml:runmc", tmp_path / "raw", site, progress=stop)
    assert sorted(site.parent.rglob("*")) == before


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("imagenet", "unknown source 'imagenet'; known are drishti-gs, "),
        ("saml:mars", "unknown part 'mars'; its parts are runmc, bmc"),
        ("origa:left", "unknown part 'left'; it has no parts"),
    ],
)
def test_unknown_names_are_told_with_the_known_ones(source, message, tmp_path):
    with pytest.raises(FedSuperError, match=message):
        import_dataset(source, tmp_path, tmp_path / "root/site")


def test_impossible_folders_are_one_line(tmp_path):
    TREES["refuge"](tmp_path / "raw")
    archive = tmp_path / "refuge.zip"
    archive.write_bytes(b"PK")
    for raw, out, mode, message in (
        (tmp_path / "nowhere", tmp_path / "root/site", "copy", "does not exist"),
        (archive, tmp_path / "root/site", "copy", "unpack it first"),
        (tmp_path / "raw", tmp_path / "raw/root/site", "copy", "lies inside the raw folder"),
        (tmp_path / "raw", archive, "copy", "is a file"),
        (tmp_path / "raw", tmp_path / "root/site", "move", "'copy' or 'link'"),
    ):
        with pytest.raises(FedSuperError, match=message):
            import_dataset("refuge", raw, out, mode)


def test_names_that_would_collide_are_one_line(tmp_path):
    for stem in ("g0001", "G0001"):
        save(tmp_path / "raw/Training400" / f"{stem}.jpg", photograph(0))
        save(tmp_path / "raw/Disc_Cup_Masks" / f"{stem}.bmp", np.full((64, 64), 255, np.uint8))
    with pytest.raises(FedSuperError, match="holds G0001, g0001 more than once"):
        import_dataset("refuge", tmp_path / "raw", tmp_path / "root/site")


def test_a_label_of_another_size_is_skipped(tmp_path):
    tree = TREES["refuge"](tmp_path / "raw")
    save(tree.label, np.full((30, 40), 255, np.uint8))
    (skipped,) = import_dataset("refuge", tmp_path / "raw", tmp_path / "root/site").skipped
    assert (skipped.name, skipped.reason) == (tree.name, "the image is 64x64 pixels, its label 40x30")


def test_links_fall_back_to_symbolic_ones(tmp_path, monkeypatch):
    def other_device(*_: object) -> None:
        raise OSError("Invalid cross-device link")

    monkeypatch.setattr(os, "link", other_device)
    tree = TREES["saml"](tmp_path / "raw")
    import_dataset("saml", tmp_path / "raw", tmp_path / "root/site", mode="link")
    image = tmp_path / "root/site/images" / f"{tree.name}.nii.gz"
    assert image.is_symlink() and os.path.samefile(image, tree.image)
    assert import_dataset("saml", tmp_path / "raw", tmp_path / "root/site").written == 0
