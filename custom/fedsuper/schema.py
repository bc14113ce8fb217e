"""What every section of a study is made of: a frozen schema that refuses what it does not know.

A room that has settings owns their schema (nets, augmentation, preprocessing, ...), the study puts them together, and
the code they steer takes the very same object: what a study accepts, a site accepts.
"""

from __future__ import annotations

import reprlib
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

TOLD = "told"  # the type of a problem whose text is the whole line, key included
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80
_SHORT.maxlist = _SHORT.maxdict = 12


class Strict(BaseModel):
    """A frozen section that refuses keys it does not know, and numbers that are none."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)

    def to_json(self) -> dict[str, Any]:
        """The settings as plain JSON."""
        return self.model_dump(mode="json")


def first_problem(error: ValidationError, *section: str) -> str:
    """One line that names the key (inside `section`, where given), what was expected and what came."""
    problems = error.errors()
    first = problems[0]
    where = ".".join([*section, *(str(part) for part in first["loc"])])
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        text = f"unknown key '{where}'; see docs/reference/study.md for the keys"
    elif first["type"] == TOLD:
        text = message
    elif not first["loc"]:  # what came is the whole section
        text = f"{where}: {message}" if where else message
    else:
        text = f"{where}: {message} (got {_SHORT.repr(first['input'])})"
    more = len(problems) - 1
    return text + (f" (and {more} more problem{'s' if more > 1 else ''})" if more else "")
