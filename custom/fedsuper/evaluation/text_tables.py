"""Results as plain text, for terminals and logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import mul
from typing import Any

LOCAL = "local"  # the method whose models the papers score at all sites too


def results_table(metrics: Mapping[str, Any]) -> str:
    """Methods by sites (mean Dice over regions), their mean over sites and over images; `*` marks a column's best.

    With several seeds the last two columns show the spread over seeds. Local training is followed by a row a site: its
    model at all sites, as in FedSM's Table 3 ("Client k Local"); the row itself has each model at home.
    """
    methods = metrics["methods"]
    sites = list(dict.fromkeys(site for found in methods.values() for site in found["per_site"]))
    columns: list[list[float | None]] = [
        [_site_mean(found, site) for found in methods.values()] for site in sites
    ] + [[found[name] for found in methods.values()] for name in ("client_avg", "global")]
    body = [[_cell(value, column) for value in column] for column in columns]
    if len(metrics.get("seeds", [])) > 1:
        for position, name in ((-2, "client_avg"), (-1, "global")):
            spreads = [found["std"][name] for found in methods.values()]
            body[position] = [f"{cell} ±{spread:.3f}" for cell, spread in zip(body[position], spreads, strict=True)]
    rows = []
    for index, (method, found) in enumerate(methods.items()):
        rows.append([method, *(column[index] for column in body)])
        if method == LOCAL:
            rows += _everywhere(found, sites)
    return text_table(["method", *sites, "client avg", "global"], rows)


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell; the first is aligned left, the others right."""
    widths = [max(len(row[index]) for row in [header, *rows]) for index in range(len(header))]
    lines = []
    for row in [header, *rows]:
        cells = [cell.ljust(width) if index == 0 else cell.rjust(width)
                 for index, (cell, width) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _everywhere(found: Mapping[str, Any], sites: Sequence[str]) -> list[list[str]]:
    """A row for every site's model: its Dice at each site, their mean over sites and over images."""
    rows = []
    for model, dice in found.get("site_by_model", {}).items():
        scores = [dice.get(site) for site in sites]
        known = {site: value for site, value in dice.items() if site in found["images"]}
        counts = [found["images"][site] for site in known]
        means = [sum(known.values()) / len(known), sum(map(mul, known.values(), counts)) / sum(counts)]
        rows.append([f"  {model}'s model", *("-" if score is None else f"{score:.3f} " for score in [*scores, *means])])
    return rows


def _site_mean(found: Mapping[str, Any], site: str) -> float | None:
    scores = found["per_site"].get(site)
    return None if scores is None else scores["mean"]


def _cell(value: float | None, column: Sequence[float | None]) -> str:
    if value is None:
        return "-"
    present = [other for other in column if other is not None]
    best = len(present) > 1 and f"{value:.3f}" == f"{max(present):.3f}"
    return f"{value:.3f}" + ("*" if best else " ")
