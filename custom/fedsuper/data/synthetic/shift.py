"""What makes hospitals differ, in three parts that can be switched: camera, anatomy and habit.

A part of a site lies between what all have in common and the site's own extreme: common + amount * (own - common). The
amount is a number in the federation's table; a part that is switched off has amount 0 everywhere.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from fedsuper.errors import FedSuperError

PARTS = ("camera", "anatomy", "habit")
OUTSIDE_KINDS = ("near", "unlike")
Difficulty = Literal["real", "easy"]
DIFFICULTIES = ("real", "easy")
Part = TypeVar("Part")


@dataclass(frozen=True)
class Amounts:
    """How far a site stands from what all have in common; 0 is not at all, 1 its own extreme."""

    camera: float
    anatomy: float
    habit: float

    def only(self, parts: tuple[str, ...]) -> Amounts:
        """These amounts where a part is switched on, else 0."""
        return Amounts(**{part: getattr(self, part) if part in parts else 0.0 for part in PARTS})


def parse_shift(text: str) -> tuple[str, ...]:
    """`camera,habit` or `none`: the parts in which sites differ."""
    parts = tuple(dict.fromkeys(part.strip() for part in text.split(","))) if text != "none" else ()
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise FedSuperError(f"synth: --shift knows {', '.join(PARTS)} and none, got {unknown[0]!r}; join with commas")
    return parts


def outside_kind(outside: bool | str) -> str | None:
    """The kind of hospital outside that is asked for; True is the first kind."""
    if isinstance(outside, bool):
        return OUTSIDE_KINDS[0] if outside else None
    if outside not in OUTSIDE_KINDS:
        raise FedSuperError(f"synth: --outside must be one of {', '.join(OUTSIDE_KINDS)}, got {outside!r}")
    return outside


def towards(common: Part, own: Part, amount: float) -> Part:
    """common + amount * (own - common), number by number; what is not a number is the site's own where amount > 0."""
    if isinstance(common, tuple) and isinstance(own, tuple):
        return type(common)(towards(one, other, amount) for one, other in zip(common, own, strict=True))
    if dataclasses.is_dataclass(common) and not isinstance(common, type):
        names = [field.name for field in dataclasses.fields(common)]
        moved: dict[str, Any] = {name: towards(getattr(common, name), getattr(own, name), amount) for name in names}
        return dataclasses.replace(common, **moved)
    if isinstance(common, float | int) and isinstance(own, float | int):
        return cast(Part, float(common) + amount * (float(own) - float(common)))
    return own if amount > 0 else common
