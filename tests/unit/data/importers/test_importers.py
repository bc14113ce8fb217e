"""Every importer, on a tiny copy of its set: what it writes, what it refuses, and that it can be run again."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from import_files import gland, volume
from import_trees import TREES

from fedsuper.data.images.io import read_image, read_label
from fedsuper.data.importers import SOURCES, import_dataset
from fedsuper.data.importers.base import PROSTATE
from fedsuper.data.layout import list_items
from fedsuper.data.task import read_task
from fedsuper.errors import FedSuperError

every_set = pytest.mark.parametrize("source", sorted(TREES))


def snapshot(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) for path in files}


def one_line(error: pytest.ExceptionInfo[FedSuperError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def tear(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def test_every_source_has_a_tree():
    assert set(TREES) == set(SOURCES)


@every_set
def test_site_is_readable_and_labeled_in_the_tasks_values(source, tmp_path):
    tree = TREES[source](tmp_path / "raw")
    site = tmp_path / "root/site"
    result = import_dataset(source, tmp_path / "raw", site)
    task = read_task(tmp_path / "root")
    assert SOURCES[source].task in (task, None)
    items = list_items(site, require_labels=True)
    assert {item.name for item in items} == set(tree.names)
    assert (result.images, result.written, result.unchanged) == (len(items), 2 * len(items), 0)
    assert not result.skipped
    for item in items:
        image = read_image(item.image)
        label = read_label(item.label, image)
        assert set(np.unique(label)) == {0, *task.label_values}
        assert image.array.shape[1] == task.channels


@every_set
def test_running_again_changes_nothing(source, tmp_path):
    TREES[source](tmp_path / "raw")
    site = tmp_path / "root/site"
    first = import_dataset(source, tmp_path / "raw", site)
    before = snapshot(tmp_path / "root")
    again = import_dataset(source, tmp_path / "raw", site)
    assert snapshot(tmp_path / "root") == before
    assert (again.written, again.unchanged) == (0, first.written)


@every_set
def test_wrong_folder_is_told_with_what_was_expected_and_found(source, tmp_path):
    (tmp_path / "raw/holiday").mkdir(parents=True)
    (tmp_path / "raw/notes.txt").write_text("nothing here")
    with pytest.raises(FedSuperError) as error:
        import_dataset(source, tmp_path / "raw", tmp_path / "root/site")
    told = one_line(error)
    assert SOURCES[source].expects in told and "holiday/, notes.txt" in told
    assert not (tmp_path / "root").exists()


@every_set
@pytest.mark.parametrize("kind", ["image", "label"])
def test_torn_file_stops_the_import_and_leaves_nothing(source, kind, tmp_path):
    tree = TREES[source](tmp_path / "raw")
    victim = tree.image if kind == "image" else tree.label
    tear(victim)
    with pytest.raises(FedSuperError) as error:
        import_dataset(source, tmp_path / "raw", tmp_path / "root/site")
    assert victim.stem in one_line(error)
    assert not (tmp_path / "root").exists()


@every_set
def test_missing_label_skips_the_case_and_says_why(source, tmp_path):
    tree = TREES[source](tmp_path / "raw")
    if source == "riga":  # six raters share a label: it is missing when fewer than three are left
        for rater in range(3, 7):
            (tree.label.parent / f"image3-{rater}.tif").unlink()
    else:
        tree.label.with_suffix(".mhd").unlink() if source == "promise12" else tree.label.unlink()
    result = import_dataset(source, tmp_path / "raw", tmp_path / "root/site")
    assert [skipped.name for skipped in result.skipped] == [tree.name]
    assert result.skipped[0].reason
    assert {item.name for item in list_items(tmp_path / "root/site", True)} == set(tree.names) - {tree.name}


@pytest.mark.slow
@every_set
def test_images_keep_their_pixels_and_link_when_asked(source, tmp_path):
    tree = TREES[source](tmp_path / "raw")
    copied, linked = tmp_path / "root/copied", tmp_path / "root/linked"
    import_dataset(source, tmp_path / "raw", copied)
    import_dataset(source, tmp_path / "raw", linked, mode="link")
    find = {folder: {item.name: item for item in list_items(folder, True)}[tree.name] for folder in (copied, linked)}
    assert np.array_equal(read_image(find[copied].image).array, read_image(find[linked].image).array)
    assert not os.path.samefile(find[copied].image, tree.image)
    assert os.path.samefile(find[linked].image, tree.image) == tree.kept
    if tree.kept:
        assert find[copied].image.read_bytes() == tree.image.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("source", [name for name in TREES if SOURCES[name].task == PROSTATE])
def test_volumes_keep_their_place(source, tmp_path):
    """The first case of every prostate tree is volume(0) with the gland block, whatever format it came in."""
    tree = TREES[source](tmp_path / "raw")
    import_dataset(source, tmp_path / "raw", tmp_path / "root/site")
    item = {item.name: item for item in list_items(tmp_path / "root/site", True)}[tree.names[0]]
    image = read_image(item.image)
    assert np.array_equal(image.frame.to_file(image.array[:, 0]), volume(0))
    assert np.array_equal(image.frame.to_file(read_label(item.label, image)), gland())
    assert item.case == tree.names[0]
    assert (tmp_path / "root/site/cases.csv").exists()
