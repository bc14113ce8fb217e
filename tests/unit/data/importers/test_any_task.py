"""Data of any task: masks beside images, mask values that mean something else, nnU-Net's layout."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813 (the name its own documents use)
from import_files import circle, gland, photograph, save, save_metaimage, save_nifti, volume

from fedsuper.cli import main
from fedsuper.data.doctor.examine import examine
from fedsuper.data.images.io import read_image, read_label
from fedsuper.data.importers import NAMES, SOURCES, import_dataset
from fedsuper.data.importers.general.label_map import apply_label_map, parse_label_map
from fedsuper.data.layout import list_items
from fedsuper.data.task import Task, read_task
from fedsuper.errors import FedSuperError


def labels_of(site: Path) -> dict[str, list[int]]:
    return {item.name: np.unique(read_label(item.label)).tolist() for item in list_items(site, True) if item.label}


def write_black_and_white(raw: Path, count: int = 3) -> None:
    for seed in range(count):
        save(raw / "images" / f"eye{seed}.png", photograph(seed))
        save(raw / "masks" / f"eye{seed}.png", circle(12 + seed).astype(np.uint8) * 255)


def test_masks_of_0_and_255_in_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_black_and_white(tmp_path / "raw")
    site = tmp_path / "root" / "clinic"
    assert main(["import", "folder", str(tmp_path / "raw"), "--out", str(site), "--map", "255=1"]) == 0
    assert "3 images with labels" in capsys.readouterr().out
    assert labels_of(site) == {f"eye{n}": [0, 1] for n in range(3)}
    assert read_task(tmp_path / "root") == Task("raw", 3, {"label-1": (1,)})
    assert examine(tmp_path / "root").count("error") == 0
    before = {item.name: item.image.read_bytes() for item in list_items(site, True)}
    assert all((tmp_path / "raw/images" / f"{name}.png").read_bytes() == pixels for name, pixels in before.items())


def test_without_the_map_the_user_is_told_to_give_it(tmp_path: Path) -> None:
    write_black_and_white(tmp_path / "raw")
    with pytest.raises(FedSuperError, match="add --map 255=1"):
        import_dataset("folder", tmp_path / "raw", tmp_path / "root" / "clinic")
    assert not (tmp_path / "root").exists()
    (tmp_path / "root").mkdir()
    task = {"task": "retina", "channels": 3, "regions": {"disc": [1, 2], "cup": [2]}}
    (tmp_path / "root/dataset.json").write_text(json.dumps(task))
    with pytest.raises(FedSuperError, match="the masks hold 255, the task knows 0 and 1, 2; .* --map 255=1"):
        import_dataset("folder", tmp_path / "raw", tmp_path / "root" / "clinic")
    assert not (tmp_path / "root" / "clinic").exists()
    import_dataset("folder", tmp_path / "raw", tmp_path / "root" / "clinic", label_map=["255=2"])
    assert labels_of(tmp_path / "root" / "clinic")["eye0"] == [0, 2]


def test_values_are_exchanged_all_at_once() -> None:
    values = np.array([0, 1, 2, 7], dtype=np.int32)
    assert apply_label_map(values, parse_label_map(["1=2,2=1", "7=0"])).tolist() == [0, 2, 1, 0]


@pytest.mark.parametrize("rule", ["255", "255=", "a=1", "1=256", "-1=1", "1=2,1=3", ""])
def test_a_faulty_map_is_one_line(rule: str) -> None:
    with pytest.raises(FedSuperError, match="--map"):
        parse_label_map([rule])


def test_a_map_is_refused_where_the_values_are_known(tmp_path: Path) -> None:
    with pytest.raises(FedSuperError, match="--map is for folder, nnunet"):
        import_dataset("refuge", tmp_path, tmp_path / "root" / "site", label_map=["255=1"])


def test_masks_beside_their_images_and_volumes_of_any_format(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    save_nifti(raw / "a.nii.gz", volume(0))
    save_nifti(raw / "a_seg.nii.gz", gland())
    save_metaimage(raw / "deep/b.mhd", volume(1))
    save_metaimage(raw / "deep/b-mask.mhd", gland())
    sitk.WriteImage(sitk.ReadImage(str(raw / "deep/b.mhd")), str(raw / "c.nrrd"))
    sitk.WriteImage(sitk.ReadImage(str(raw / "deep/b-mask.mhd")), str(raw / "c.gt.nrrd"))
    save_nifti(raw / "lonely.nii.gz", volume(4))
    result = import_dataset("folder", raw, tmp_path / "root" / "site")
    assert [skipped.name for skipped in result.skipped] == ["lonely"]
    items = {item.name: item for item in list_items(tmp_path / "root" / "site", True)}
    assert set(items) == {"a", "b", "c"}
    for name, seed in (("a", 0), ("b", 1), ("c", 1)):
        image = read_image(items[name].image)
        label = items[name].label
        assert label is not None
        np.testing.assert_array_equal(image.frame.to_file(image.array[:, 0]), volume(seed))
        np.testing.assert_array_equal(image.frame.to_file(read_label(label, image)), gland())


def test_two_images_of_one_name_are_told(tmp_path: Path) -> None:
    write_black_and_white(tmp_path / "raw/a")
    write_black_and_white(tmp_path / "raw/b")
    with pytest.raises(FedSuperError, match="more than once"):
        import_dataset("folder", tmp_path / "raw", tmp_path / "root" / "site", label_map=["255=1"])


def test_nnunet_regions_and_channels(tmp_path: Path) -> None:
    raw = tmp_path / "Dataset005_Prostate"
    for seed in range(3):
        for channel in range(2):
            save_nifti(raw / "imagesTr" / f"p{seed}_000{channel}.nii.gz", volume(10 * channel + seed))
        save_nifti(raw / "labelsTr" / f"p{seed}.nii.gz", gland((1, 2)))
    save_nifti(raw / "imagesTs" / "p9_0000.nii.gz", volume(9))
    described = {"labels": {"background": 0, "whole gland": [1, 2], "mean": 2, "ignore": 3}, "name": "Prostate"}
    (raw / "dataset.json").write_text(json.dumps(described))
    result = import_dataset("nnunet", raw, tmp_path / "root" / "site")
    assert result.images == 3 and not result.skipped
    assert read_task(tmp_path / "root") == Task("Prostate", 2, {"whole-gland": (1, 2), "mean-region": (2,)})
    image = read_image(tmp_path / "root" / "site" / "images" / "p1.nii.gz")
    np.testing.assert_array_equal(image.frame.to_file(image.array[:, 1]), volume(11))
    assert examine(tmp_path / "root").count("error") == 0


def test_nnunet_of_the_first_version(tmp_path: Path) -> None:
    raw = tmp_path / "Task005"
    for seed in range(3):
        save_nifti(raw / "imagesTr" / f"p{seed}_0000.nii.gz", volume(seed))
        save_nifti(raw / "labelsTr" / f"p{seed}.nii.gz", gland((1, 2)))
    (raw / "dataset.json").write_text(json.dumps({"labels": {"0": "background", "1": "PZ", "2": "TZ"}}))
    import_dataset("nnunet", raw, tmp_path / "root" / "site", label_map=["2=1"])
    assert read_task(tmp_path / "root").regions == {"PZ": (1,), "TZ": (1,)}
    assert set(map(tuple, labels_of(tmp_path / "root" / "site").values())) == {(0, 1)}


def test_help_lists_every_source_and_loads_nothing_heavy(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["import", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert set(NAMES) == set(SOURCES)
    assert all(name in text for name in NAMES) and all(about for about in NAMES.values())
    heavy_ones = {"torch", "SimpleITK", "nibabel", "scipy", "pydicom"}
    code = f"import sys, fedsuper.data.importers; print(sorted({heavy_ones} & set(sys.modules)))"
    heavy = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert heavy.strip() == "[]"
