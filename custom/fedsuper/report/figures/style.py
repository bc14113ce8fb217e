"""One look for every figure: colors, type, and how a figure becomes SVG for the page or PNG for a document.

Figures are drawn in a few neutral "ink" colors. In the page's SVG these become CSS variables, so that a figure follows
the reader's light or dark theme; a saved SVG or PNG keeps the light values.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID, CELL_INK = "#1c2024", "#697078", "#e2e5e9", "#010101"  # matplotlib leaves pure black out of its SVG
CSS_VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--line", CELL_INK: "--cell-ink"}
# The methods every report has keep their colors from report to report; the rest take the palette in order.
FIXED_COLORS = {"centralized": "#7d8590", "local": "#a08468", "fedsm": "#4277e8", "fedavg": "#e07b1f"}
METHOD_COLORS = (
    *("#16967a", "#c03f8c", "#8460d8", "#b8901a", "#1694b4", "#d24a43", "#5d8f2a", "#9a5b3c"),
    *("#4f6a92", "#e0699a", "#8a8f1c", "#5b3fb0", "#1c7f54", "#c26a86", "#3f5a66", "#a34bc4"),
)
# On photographs: bright, told apart in the common color deficiencies too.
REGION_COLORS = ("#4be36a", "#38b6ff", "#ffb02e", "#ff5c8a", "#c39bff", "#fff05a")
HEAT = "#24449c"
FONT_FAMILY = "DejaVu Sans"
PIXELS_PER_INCH = 102  # on the page, at most

RC_PARAMS: dict[Any, Any] = {
    "font.family": FONT_FAMILY,
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GRID,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "lines.solid_capstyle": "round",
    "savefig.facecolor": "none",
    "text.parse_math": False,  # a site may be called $a$
}


def colors_of(methods: Mapping[str, str]) -> dict[str, str]:
    """A color per label of `methods` (label -> method); a second label of a method takes one of the palette."""
    palette, used = cycle(METHOD_COLORS), set()
    colors = {}
    for label, method in methods.items():
        colors[label] = FIXED_COLORS[method] if method in FIXED_COLORS and method not in used else next(palette)
        used.add(method)
    return colors


@contextmanager
def figure(width: float, height: float, rows: int = 1, columns: int = 1) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure of rows by columns axes in the report's style; outside the block matplotlib keeps its own settings."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(RC_PARAMS):
        made = Figure(figsize=(width, height), layout="constrained")
        yield made, list(made.subplots(rows, columns, squeeze=False).flat)


def to_svg(made: Figure, name: str) -> str:
    """The figure as an `<svg>` element to put into a page; `name` keeps its identifiers apart from other figures'."""
    import matplotlib

    buffer = io.StringIO()
    nothing = {key: None for key in ("Creator", "Date", "Format", "Type")}
    with matplotlib.rc_context({**RC_PARAMS, "svg.hashsalt": name}):
        made.savefig(buffer, format="svg", metadata=nothing)
    root = ElementTree.fromstring(buffer.getvalue())
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.set("style", f"max-width: {made.get_figwidth() * PIXELS_PER_INCH:.0f}px")
    for element in list(root.iter()):
        element.tag = _local(element.tag)
        element.attrib = {_local(key): _for_page(_local(key), value, name) for key, value in element.attrib.items()}
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag == "style"]:  # a rule that would leak into the page
            parent.remove(child)
    return ElementTree.tostring(root, encoding="unicode")


def _local(qualified: str) -> str:
    """A name without its namespace: inside a page SVG needs none."""
    return qualified.rpartition("}")[2]


def _for_page(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "href":
        return value.replace("#", f"#{name}-", 1) if value.startswith("#") else value
    value = value.replace("url(#", f"url(#{name}-")
    if key == "style":
        value = value.replace(f"'{FONT_FAMILY}'", "inherit")
        for color, variable in CSS_VARIABLES.items():
            value = value.replace(color, f"var({variable}, {color})")
    return value


def to_png(made: Figure, dpi: int = 200) -> bytes:
    """The figure as a PNG on white, for documents."""
    buffer = io.BytesIO()
    made.savefig(buffer, format="png", dpi=dpi, facecolor="white", metadata={"Software": None})
    return buffer.getvalue()


def cell_colors(share: float) -> tuple[float, str]:
    """Opacity of a heat-map cell filled with `HEAT`, and the text color that reads on it.

    A faint cell lets the page shine through, light or dark, and has text in the page's ink; a full one has white text.
    """
    opacity = 0.05 + 0.95 * min(max(share, 0.0), 1.0)
    mixed = [opacity * int(HEAT[i : i + 2], 16) / 255 + 1 - opacity for i in (1, 3, 5)]
    return opacity, CELL_INK if luminance(mixed) > 0.18 else "#ffffff"  # 0.18: black and white contrast alike


def luminance(rgb: Sequence[float]) -> float:
    """Relative luminance (WCAG 2) of red, green and blue in [0, 1]."""
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
