"""Pooled training describes all the images it sees, not those of the first hospital alone."""

from __future__ import annotations

from pathlib import Path

from fedsuper.config import Study
from fedsuper.data.layout import find_sites
from fedsuper.federation.site_data import SiteData


def test_the_pool_counts_every_hospitals_images(tiny_root: Path, tiny_study: Study, tmp_path: Path) -> None:
    images = sum(len(list((tiny_root / site / "images").iterdir())) for site in find_sites(tiny_root))
    pool = SiteData("centralized", tiny_root, tmp_path)
    for resume in (False, True):
        facts = pool.describe(tiny_study, resume)
        assert facts.fingerprint["images"] == facts.fingerprint["cases"] == sum(facts.samples.values()) == images
