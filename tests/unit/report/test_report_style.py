"""Figures as SVG for the page: themed, with identifiers of their own, and no trace of the outside."""

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from fedsuper.report.figures.heat_map import heat_map
from fedsuper.report.figures.style import CELL_INK, HEAT, cell_colors, colors_of, luminance, to_svg
from fedsuper.report.sections.scores.results import site_dots


def picture(name: str = "figure") -> str:
    return to_svg(heat_map([[0.1, 0.9]], ["a"], ["b", "c"], "rows", "columns"), name)


def test_svg_has_no_namespace_and_no_address() -> None:
    text = picture()
    assert text.startswith("<svg")
    assert "http" not in text
    assert "xmlns" not in text
    assert "<style" not in text


def test_neutral_colors_follow_the_theme() -> None:
    assert "var(--cell-ink, " in picture()
    assert "var(--ink, #1c2024)" in picture()
    assert not re.search(r"[^,] #1c2024", picture())


def test_two_figures_share_no_identifier() -> None:
    first, second = (set(re.findall(r'id="([^"]+)"', picture(name))) for name in ("one", "two"))
    assert first and not first & second
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', picture("one")))
    assert used <= first


def test_text_is_kept_as_text_and_escaped() -> None:
    text = to_svg(site_dots({"<b>": {"r$x$": 0.5}}, ["r$x$"], {"<b>": "#123456"}, set()), "x")
    root = ElementTree.fromstring(text)
    words = {element.text for element in root.iter("text")}
    assert {"<b>", "r$x$"} <= words


def test_blank_cells_have_no_number() -> None:
    text = to_svg(heat_map([[float("nan"), 0.25]], ["a"], ["b", "c"], "r", "c"), "x")
    assert "0.25" in text
    assert "nan" not in text


def test_known_methods_keep_their_colors_and_labels_never_clash() -> None:
    colors = colors_of({"FedSM (a)": "fedsm", "FedSM (b)": "fedsm", "APFL": "apfl", "Local": "local"})
    assert colors["FedSM (a)"] == colors_of({"FedAvg": "fedavg", "FedSM": "fedsm"})["FedSM"]
    assert len(set(colors.values())) == 4


@given(st.floats(0, 1))
def test_numbers_are_readable_on_every_cell_in_both_themes(share: float) -> None:
    opacity, ink = cell_colors(share)
    for paper, page_ink in ("#ffffff", "#000000"), ("#16191d", "#e8eaed"):  # as in report.css
        text = page_ink if ink == CELL_INK else ink
        cell = luminance([opacity * a + (1 - opacity) * b for a, b in zip(rgb(HEAT), rgb(paper), strict=True)])
        light, dark = sorted((cell, luminance(rgb(text))), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5


def rgb(color: str) -> list[float]:
    return [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
