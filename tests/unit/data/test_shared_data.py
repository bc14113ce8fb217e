"""Real images pass the doctor and load without a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedsuper.data.dataset import load_samples
from fedsuper.data.doctor import diagnose
from fedsuper.data.layout import find_sites, list_items, resolve_site
from fedsuper.data.preprocess import Preprocess
from fedsuper.data.splits import RATIOS, split_items
from fedsuper.data.task import read_task

SHARED = Path(__file__).parents[4] / "shared" / "data"


@pytest.mark.parametrize("name", ["retina-idrid", "prostate-prostatex"])
def test_real_images(name: str) -> None:
    root = SHARED / name
    if not root.is_dir():
        pytest.skip(f"the real images of {name} are not beside this project (../shared/data)")
    assert [finding for finding in diagnose(root) if finding.level == "error"] == []
    task = read_task(root)
    for site in find_sites(root):
        folder = resolve_site(root, site)
        split = split_items(folder, list_items(folder, require_labels=True), RATIOS["fedsm"], seed=0)
        cases = [{item.case for item in split[part]} for part in ("train", "val", "test")]
        assert all(cases) and not cases[0] & cases[1] and not cases[0] & cases[2] and not cases[1] & cases[2]
        samples = load_samples(folder, split["test"], task, Preprocess(64))
        assert samples.images.isfinite().all() and samples.masks.any()
