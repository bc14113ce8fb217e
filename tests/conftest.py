"""A tiny federation that every test may train on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webdriver import WebDriver

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.data.synthetic.retina import write_retina

torch.set_num_threads(1)
# The same examples in every run, and no clock: a busy machine makes a test slow, not wrong.
settings.register_profile("house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

TINY = {
    "method": "fedsm",
    "rounds": 2,
    "image_size": 32,
    "model": {"channels": [4, 8], "residual_units": 0},
    "optimizer": {"lr": 0.01},
}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """The same random numbers for a test and its fixtures, whichever tests ran before in this process."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def tiny_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three synthetic hospitals with a dozen images each; read-only by agreement."""
    root = tmp_path_factory.mktemp("federation") / "root"
    write_retina(root, sites=3, images=36, size=48, seed=0, difficulty="easy")
    return root


@pytest.fixture
def tiny_study() -> Study:
    """A study that trains in about a second."""
    return parse_study(TINY)


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[WebDriver]:
    """A real headless Chromium (Debian: chromium and chromium-driver); a test that leaves a console error fails."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} here; `make browser` installs them")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync",
                 "disable-background-networking", "disable-component-update", f"user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    try:
        yield driver
        said = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert not said, said
    finally:
        driver.quit()
