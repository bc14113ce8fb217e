"""Broken input of many kinds: each gives its finding and its one-line error, none a traceback, none a wrong sample."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from broken_images import BROKEN_IMAGES
from broken_roots import BROKEN_ROOTS
from data_roots import prostate_root, retina_root
from spoiling import (
    EYE,
    EYE_LABEL,
)

from fedsuper.data.dataset import load_samples
from fedsuper.data.doctor.examine import examine
from fedsuper.data.layout import find_sites, list_items, resolve_site
from fedsuper.data.preprocess import Preprocess
from fedsuper.data.splits import RATIOS, split_items
from fedsuper.data.task import read_task
from fedsuper.errors import FedSuperError

BROKEN = BROKEN_ROOTS | BROKEN_IMAGES


def train_side(root: Path) -> None:
    """What every site does before its first epoch."""
    task = read_task(root)
    for site in find_sites(root):
        folder = resolve_site(root, site)
        split = split_items(folder, list_items(folder, require_labels=True), RATIOS["fedsm"], seed=0)
        for items in split.values():
            samples = load_samples(folder, items, task, Preprocess(image_size=16))
            assert samples.images.isfinite().all()
            assert samples.masks.max() <= 1


def test_there_are_enough_kinds() -> None:
    assert len(BROKEN) >= 30


@pytest.mark.parametrize("sound", [retina_root, prostate_root])
def test_the_sound_roots_are_sound(tmp_path: Path, sound: Callable[[Path], Path]) -> None:
    root = sound(tmp_path / "root")
    assert examine(root).findings == []
    train_side(root)


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_input_is_named(tmp_path: Path, kind: str) -> None:
    broken = BROKEN[kind]
    root = broken.sound(tmp_path / "root")
    broken.spoil(root)
    findings = examine(root).findings
    expected = broken.file or str(root)
    told = [f for f in findings if f.file == expected.rstrip("/") or (not broken.file and f.file in (".", str(root)))]
    assert any(broken.words in f.what and f.level == broken.level for f in told), findings
    assert all(f.what and f.fix and "\n" not in f.what + f.fix for f in findings)
    assert all(f.site in ("", *(entry.name for entry in tmp_path.glob("root/*"))) for f in findings)
    if broken.trains:
        train_side(root)
    else:
        with pytest.raises(FedSuperError) as problem:
            train_side(root)
        assert "\n" not in str(problem.value) and len(str(problem.value)) < 700


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(tmp_path: Path) -> None:
    root = retina_root(tmp_path / "root")
    (root / EYE).chmod(0)
    assert any("may not be read" in finding.what for finding in examine(root).findings)


def test_the_cure_of_a_0_255_label_is_in_words(tmp_path: Path) -> None:
    root = retina_root(tmp_path / "root")
    BROKEN["0/255 label"].spoil(root)
    (finding,) = [f for f in examine(root).findings if f.file == EYE_LABEL]
    assert finding.level == "error" and finding.fix.startswith("save 255 as 1")
