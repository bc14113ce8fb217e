"""The words of a model card that hold for every super model, and the Markdown they are put in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

UNKNOWN = "unknown"

INTENDED_USE = (
    "Research on segmentation across hospitals, and prediction on images like those of the sites that trained.",
    "A person who can judge the images looks at every mask before anything follows from it.",
    "It is no medical device: nobody has assessed it for diagnosis or treatment.",
)
LIMITS = (
    "The scores below are of the sites' own test images. What it is worth at a hospital that did not train is unknown "
    "until that hospital measures it (`fedsuper evaluate`).",
    "Scores are Dice; whether an error of that size matters for a patient is not measured.",
    "Age, sex, disease and scanner of the patients are not recorded, so differences between such groups are unknown.",
    "Another modality or another part of the body gets a mask as well; see below whether the super model can tell.",
)


def plain(value: Any, missing: str = UNKNOWN) -> str:
    """A value as text that Markdown shows as it is: numbers with three decimals, nothing where there is nothing."""
    if value is None:
        return missing
    if isinstance(value, float):
        return f"{value:.3f}"
    text = " ".join(str(value).split())
    for mark, shown in (("&", "&amp;"), ("<", "&lt;"), ("\\", "\\\\"), ("|", "\\|"), ("`", "\\`"), ("*", "\\*"),
                        ("[", "\\["), ("_", "\\_")):
        text = text.replace(mark, shown)
    return text


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; the first column names, the others tell."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def bullets(lines: Iterable[str]) -> str:
    """One point a line."""
    return "\n".join(f"- {line}" for line in lines)
