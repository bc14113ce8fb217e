"""Whole data roots pass the doctor, split by case and load: synthetic ones always, real ones where they are at hand.

Real images lie in the folder that FEDSUPER_SHARED_DATA names, or in `shared/data` beside the project. What is asked of
them is asked of synthetic roots too, so that a clone without them comes to the same verdict about the code.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedsuper.data.dataset import load_samples
from fedsuper.data.doctor.examine import examine
from fedsuper.data.layout import find_sites, list_items, resolve_site
from fedsuper.data.preprocess import Preprocess
from fedsuper.data.splits import RATIOS, split_items
from fedsuper.data.synthetic.prostate import write_prostate
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.data.task import read_task

BESIDE = Path(__file__).parents[4] / "shared" / "data"


def real_root(name: str) -> Path:
    root = Path(os.environ.get("FEDSUPER_SHARED_DATA", BESIDE)) / name
    if not root.is_dir():
        pytest.skip(f"no real images of {name}: set FEDSUPER_SHARED_DATA to the folder that holds them")
    return root


@pytest.mark.slow
@pytest.mark.parametrize("name", ["synthetic retina", "synthetic prostate", "retina-idrid", "prostate-prostatex"])
def test_a_root_is_sound_split_by_case_and_loaded(tmp_path: Path, name: str) -> None:
    if name.startswith("synthetic"):
        root = tmp_path / "root"
        write_retina(root, sites=2, images=12, size=48) if "retina" in name else write_prostate(root, 2, 4, size=48)
    else:
        root = real_root(name)
    assert [finding for finding in examine(root).findings if finding.level == "error"] == []
    task = read_task(root)
    for site in find_sites(root):
        folder = resolve_site(root, site)
        split = split_items(folder, list_items(folder, require_labels=True), RATIOS["fedsm"], seed=0)
        cases = [{item.case for item in split[part]} for part in ("train", "val", "test")]
        assert all(cases) and not cases[0] & cases[1] and not cases[0] & cases[2] and not cases[1] & cases[2]
        samples = load_samples(folder, split["test"], task, Preprocess(image_size=64))
        assert samples.images.isfinite().all() and samples.masks.any()
