"""The page in a real browser: nothing to scroll sideways, nothing in the console, tables that sort, print in full."""

import base64
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver


def show(chromium: WebDriver, page: Path, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    chromium.get(page.as_uri())


@pytest.mark.parametrize("width", [390, 1280])
def test_the_answer_fits_the_screen(chromium: WebDriver, comparison_file: Path, width: int) -> None:
    show(chromium, comparison_file, width)
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= width
    for part in chromium.find_elements(By.CSS_SELECTOR, "h1, .lead, .caveat, .strip-of-hospitals li"):
        assert part.rect["x"] >= 0 and part.rect["x"] + part.rect["width"] <= width
        assert chromium.execute_script("return arguments[0].scrollWidth - arguments[0].clientWidth", part) <= 1
    title = chromium.find_element(By.TAG_NAME, "h1")
    assert title.rect["y"] + title.rect["height"] < 400


def test_a_table_sorts_and_regions_stay_with_their_method(chromium: WebDriver, comparison_file: Path) -> None:
    show(chromium, comparison_file, 1280)
    (head,) = chromium.find_elements(By.CSS_SELECTOR, "#part-1-results thead th:nth-child(2) button")

    def names() -> list[str]:
        script = "return [...document.querySelectorAll('#part-1-results tbody th')].map(cell => cell.textContent)"
        return chromium.execute_script(script)

    head.click()
    assert names() == [n for method in ("FedSM", "FedAvg", "Centralized", "Local") for n in (method, "disc", "cup")]
    assert chromium.execute_script("return arguments[0].parentElement.ariaSort", head) == "descending"
    head.click()
    assert names()[::3] == ["FedAvg", "FedSM", "Local", "Centralized"]


def test_what_is_folded_is_printed(chromium: WebDriver, comparison_file: Path) -> None:
    show(chromium, comparison_file, 1280)
    closed = "return document.querySelectorAll('details:not([open])').length"
    before = chromium.execute_script(closed)
    assert before
    chromium.execute_script("addEventListener('beforeprint', () => { window.left = "
                            "document.querySelectorAll('details:not([open])').length })")  # fmt: skip
    printed = chromium.execute_cdp_cmd("Page.printToPDF", {})
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
    assert chromium.execute_script("return window.left") == 0
    assert chromium.execute_script(closed) == before


def test_the_page_runs_no_script_but_its_own(chromium: WebDriver, comparison_file: Path) -> None:
    show(chromium, comparison_file, 1280)
    blocked = chromium.execute_script(
        "let seen = 0; document.addEventListener('securitypolicyviolation', () => { seen += 1 });"
        "const one = document.createElement('script'); one.textContent = 'window.owned = 1'; document.body.append(one);"
        "return [window.owned === undefined]"
    )
    assert blocked == [True]
    chromium.get_log("browser")  # the refusal itself is written there
