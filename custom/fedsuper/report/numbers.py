"""Numbers as the report prints them."""

from __future__ import annotations

import math


def dice(value: float | None) -> str:
    """A score."""
    return "–" if value is None or math.isnan(value) else f"{value:.3f}"


def signed(value: float) -> str:
    """A difference with its sign (a true minus)."""
    text = f"{abs(value):.3f}"
    return f"±{text}" if float(text) == 0 else f"{'+' if value > 0 else '−'}{text}"


def whole(value: float | None) -> str:
    """A count."""
    return "–" if value is None else f"{value:.0f}"


def mean(values: list[float]) -> float:
    """Their mean; NaN of nothing."""
    return math.fsum(values) / len(values) if values else math.nan
