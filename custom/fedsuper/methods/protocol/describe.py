"""Every method at a glance: what travels, what sites keep, where it comes from, which knobs it has."""

from __future__ import annotations

import json
from typing import Any

from fedsuper.methods import METHODS, method_class


def method_rows() -> list[dict[str, Any]]:
    """One plain record per method; knobs are the names a study uses, with their defaults."""
    rows = []
    for name in METHODS:
        method = method_class(name)
        fields = method.Knobs.model_fields
        rows.append({
            "method": name,
            "travels": method.travels,
            "keeps": method.keeps,
            "paper": method.paper,
            "predicts": method.mode,
            "knobs": {field.alias or key: field.get_default() for key, field in fields.items()},
        })
    return rows


def describe_methods() -> str:
    """The table that `fedsuper methods` prints: a block of lines per method, knobs as they are written in a study."""
    blocks = []
    for row in method_rows():
        knobs = ", ".join(f"{key}: {_yaml(value)}" for key, value in row["knobs"].items())
        lines = {
            "travels per round": row["travels"], "a site keeps": row["keeps"], "paper": row["paper"],
            "predicts by mode": row["predicts"], "knobs": f"{row['method']}: {{{knobs}}}" if knobs else "none",
        }
        blocks.append("\n".join([row["method"], *(f"  {label:<18} {text}" for label, text in lines.items())]))
    head = "w: one segmentation model, s: one selector, per site and round. Shared keys: docs/reference/study.md"
    return "\n\n".join([head, *blocks])


def _yaml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
