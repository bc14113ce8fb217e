"""Mask values that mean something else in the task: `255=1` says that 255 in the files is label value 1."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from fedsuper.errors import FedSuperError

LabelMap = Mapping[int, int]
RULE = re.compile(r"(\d{1,9})=(\d{1,3})")


def parse_label_map(rules: Iterable[str]) -> dict[int, int]:
    """The map in words such as `255=1` or `1=2,2=1`; values of a task lie in 0 (background) to 255."""
    found: dict[int, int] = {}
    for rule in (part for text in rules for part in text.split(",")):
        match = RULE.fullmatch(rule.strip())
        if match is None or int(match[2]) > 255:
            raise FedSuperError(f"import: --map {rule}: expected FROM=TO in whole numbers, TO at most 255, like 255=1")
        if found.setdefault(int(match[1]), int(match[2])) != int(match[2]):
            raise FedSuperError(f"import: --map gives {match[1]} two meanings; keep one of them")
    return found


def apply_label_map(values: NDArray[np.int32], label_map: LabelMap) -> NDArray[np.int32]:
    """`values` with every value of the map replaced, all at once (`1=2,2=1` exchanges two); others stay."""
    mapped = values.copy()
    for old, new in label_map.items():
        mapped[values == old] = new
    return mapped
