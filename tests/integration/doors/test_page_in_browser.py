"""`fedsuper serve` as its user sees it: the real command, a real Chromium."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import nibabel
import numpy as np
import pytest
from PIL import Image as Pillow
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

from fedsuper.inference.artifact import save_super_model

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Starts the command for a task's super model; returns the address it prints."""
    from super_models import PROSTATE, RETINA, random_super_model

    started: dict[str, tuple[subprocess.Popen[str], str]] = {}

    def serve(task: str) -> str:
        if task not in started:
            folder = tmp_path_factory.mktemp(task) / "supermodel"
            save_super_model(random_super_model(task={"retina": RETINA, "prostate": PROSTATE}[task]), folder)
            command = [sys.executable, "-m", "fedsuper.cli", "serve", str(folder), "--port", "0", "--upload-mb", "1"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            started[task] = process, process.stdout.readline().strip()
        return started[task][1]

    yield serve
    for process, _ in started.values():
        process.terminate()
        assert process.wait(30) in (0, -15, 143)


@pytest.fixture
def photograph(tmp_path: Path) -> Path:
    path = tmp_path / "eye.png"
    Pillow.fromarray(np.random.default_rng(0).integers(0, 255, (64, 80, 3), dtype=np.uint8)).save(path)
    return path


def open_page(chromium: WebDriver, address: str, width: int = 1280) -> None:
    chromium.set_window_size(width, 900)
    chromium.get(address)
    until(chromium, lambda: "trained by" in text(chromium, "about"))


def until(chromium: WebDriver, condition: Callable[[], object]) -> None:
    WebDriverWait(chromium, 60, 0.1).until(lambda _: condition())


def part(chromium: WebDriver, name: str) -> WebElement:
    return chromium.find_element(By.ID, name)


def text(chromium: WebDriver, name: str) -> str:
    return part(chromium, name).text


def choose(chromium: WebDriver, path: Path) -> None:
    part(chromium, "file").send_keys(str(path))


def loaded(chromium: WebDriver, name: str) -> bool:
    """Whether an image is really drawn."""
    return bool(chromium.execute_script("const i = arguments[0]; return i.complete && i.naturalWidth > 0",
                                        part(chromium, name)))


def test_an_image_is_dropped_and_explained(chromium: WebDriver, served: Callable, photograph: Path) -> None:
    open_page(chromium, served("retina"))
    chromium.execute_async_script(
        """const done = arguments[arguments.length - 1];
        const canvas = document.createElement("canvas"); canvas.width = 60; canvas.height = 40;
        canvas.toBlob((blob) => {
          const data = new DataTransfer(); data.items.add(new File([blob], "dropped.png"));
          document.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true})); done();
        });"""
    )
    until(chromium, lambda: "Segmented by" in text(chromium, "verdict"))
    until(chromium, lambda: loaded(chromium, "slice") and loaded(chromium, "mask"))
    assert "dropped.png" in (part(chromium, "slice").get_attribute("alt") or "")
    bars = [row.text for row in chromium.find_elements(By.CSS_SELECTOR, "#bars tr")]
    assert [bar.split()[0] for bar in bars] == ["A", "B", "C"]
    assert sum(float(bar.split()[-1]) for bar in bars) == pytest.approx(1, abs=0.01)
    assert text(chromium, "why") and text(chromium, "gamma")


def test_the_mode_is_switched_and_compared(chromium: WebDriver, served: Callable, photograph: Path) -> None:
    open_page(chromium, served("retina"))
    choose(chromium, photograph)
    until(chromium, lambda: "Segmented by" in text(chromium, "verdict"))
    Select(part(chromium, "mode")).select_by_value("site:B")
    until(chromium, lambda: text(chromium, "verdict") == "Segmented by the model of B")
    Select(part(chromium, "against")).select_by_value("select")
    until(chromium, lambda: "agree with Dice" in text(chromium, "agreement"))
    until(chromium, lambda: loaded(chromium, "difference"))
    assert "mode=site%3AB" in (part(chromium, "download").get_attribute("href") or "")
    opacity = part(chromium, "opacity")
    opacity.send_keys(Keys.END)
    assert text(chromium, "opacity-value") == "100 %"
    assert part(chromium, "mask").value_of_css_property("opacity") == "1"


def test_a_volume_has_a_slider_for_the_keyboard(chromium: WebDriver, served: Callable, tmp_path: Path) -> None:
    voxels = np.random.default_rng(1).normal(100, 30, (40, 40, 7)).astype(np.float32)
    nibabel.Nifti1Image(voxels, np.diag([0.6, 0.6, 3, 1])).to_filename(tmp_path / "scan.nii.gz")
    open_page(chromium, served("prostate"))
    choose(chromium, tmp_path / "scan.nii.gz")
    until(chromium, lambda: part(chromium, "slices").is_displayed())
    part(chromium, "number").send_keys(Keys.HOME)
    assert text(chromium, "number-value") == "1 of 7"
    part(chromium, "number").send_keys(Keys.ARROW_RIGHT)
    assert text(chromium, "number-value") == "2 of 7"
    until(chromium, lambda: "slices/1.png" in (part(chromium, "slice").get_attribute("src") or ""))
    until(chromium, lambda: loaded(chromium, "slice") and loaded(chromium, "mask"))


def test_a_wrong_file_is_one_line(chromium: WebDriver, served: Callable, tmp_path: Path) -> None:
    (tmp_path / "letter.png").write_text("Dear colleague")
    open_page(chromium, served("retina"))
    choose(chromium, tmp_path / "letter.png")
    until(chromium, lambda: part(chromium, "problem").is_displayed())
    assert text(chromium, "problem").startswith("letter.png") and "/tmp" not in text(chromium, "problem")
    assert not part(chromium, "result").is_displayed()
    # The browser itself logs every answer that is no success; that the page caught it is what was tested.
    assert all("422" in entry["message"] for entry in chromium.get_log("browser"))


def test_too_large_a_file_is_one_line(chromium: WebDriver, served: Callable, tmp_path: Path) -> None:
    (tmp_path / "huge.png").write_bytes(b"0" * 1_100_000)
    open_page(chromium, served("retina"))
    choose(chromium, tmp_path / "huge.png")
    until(chromium, lambda: "larger than 1 MB" in text(chromium, "problem"))


@pytest.mark.parametrize("width", [390, 1280])
def test_the_answer_fits_the_width(chromium: WebDriver, served: Callable, photograph: Path, width: int) -> None:
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                             {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500})
    open_page(chromium, served("retina"), width)
    choose(chromium, photograph)
    until(chromium, lambda: loaded(chromium, "slice"))
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= width
    assert part(chromium, "verdict").is_displayed()


def test_everything_has_a_name_for_a_screen_reader(chromium: WebDriver, served: Callable, photograph: Path) -> None:
    open_page(chromium, served("retina"))
    choose(chromium, photograph)
    until(chromium, lambda: loaded(chromium, "mask"))
    nameless = chromium.execute_script(
        """return [...document.querySelectorAll("input, select, a, img, table")].filter((e) => e.checkVisibility())
        .filter((e) => !(e.alt || e.textContent.trim() || (e.labels && e.labels.length) || e.caption))
        .map((e) => e.id)"""
    )
    assert nameless == []
    assert chromium.switch_to.active_element.get_attribute("id") == "verdict"  # where the reader goes on
