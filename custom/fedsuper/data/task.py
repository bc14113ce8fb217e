"""What is segmented: the task named by `dataset.json` at the top of a data root."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuper.data.problems import DataProblem
from fedsuper.data.text_files import read_json_object

TASK_FILE = "dataset.json"
EXAMPLE = '{"task": "retina", "channels": 3, "regions": {"disc": [1, 2], "cup": [2]}}'
# Keys and columns that stand beside the regions in results.
RESERVED_REGIONS = (
    "mean", "n", "method", "seed", "site", "image", "case", "slice", "model", "gamma", "selector", "p_own", "split",
    "mean_low", "mean_high",
)  # fmt: skip


@dataclass(frozen=True)
class Task:
    """A segmentation task: image channels in, one sigmoid map per region out.

    A region is the set of label values it covers, so regions may nest: with `{"disc": (1, 2), "cup": (2,)}`
    a pixel labeled 2 lies in the cup and in the disc. The order of `regions` is the order of the output channels.
    """

    name: str
    channels: int
    regions: dict[str, tuple[int, ...]]

    @property
    def label_values(self) -> tuple[int, ...]:
        """Every value a label may hold besides 0 (background), in rising order."""
        return tuple(sorted({value for values in self.regions.values() for value in values}))

    def to_json(self) -> dict[str, Any]:
        """The task as `dataset.json` holds it."""
        return {
            "task": self.name,
            "channels": self.channels,
            "regions": {region: list(values) for region, values in self.regions.items()},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: Path | str = TASK_FILE) -> Task:
        """Build the task from `dataset.json`'s object, or raise one line that names `where` and the faulty key."""
        fix = f"write for example {EXAMPLE}"
        for key in ("task", "channels", "regions"):
            if key not in value:
                raise DataProblem(where, f"the key {key!r} is missing", fix)
        name, channels, regions = value["task"], value["channels"], value["regions"]
        if not isinstance(name, str) or not name.strip():
            raise DataProblem(where, f"'task' must be a name, not {name!r}", fix)
        if not _is_int(channels) or not 1 <= channels <= 64:
            raise DataProblem(where, f"'channels' must be a whole number from 1 to 64, not {channels!r}", fix)
        if not isinstance(regions, Mapping) or not 1 <= len(regions) <= 32:
            raise DataProblem(where, "'regions' must map 1 to 32 region names to lists of label values", fix)
        checked = {region: _region_values(region, values, where, fix) for region, values in regions.items()}
        return cls(name.strip(), channels, checked)


def read_task(root: Path) -> Task:
    """The task of the data root `root`."""
    path = Path(root) / TASK_FILE
    return Task.from_json(read_json_object(path), path)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _region_values(region: Any, values: Any, where: Path | str, fix: str) -> tuple[int, ...]:
    plain = isinstance(region, str) and region.strip() == region and region.replace("-", "").replace("_", "").isalnum()
    if not plain or region in RESERVED_REGIONS:
        raise DataProblem(
            where,
            f"the region name {region!r} cannot be used",
            f"use letters, digits, - and _, and none of {', '.join(RESERVED_REGIONS)}",
        )
    if not isinstance(values, (list, tuple)) or not values:
        raise DataProblem(where, f"region {region!r} must be a list of label values, not {values!r}", fix)
    for value in values:
        if not _is_int(value) or not 1 <= value <= 255:
            raise DataProblem(
                where, f"region {region!r} holds {value!r}; a label value is a whole number from 1 to 255", fix
            )
    if len(set(values)) != len(values):
        raise DataProblem(where, f"region {region!r} holds a label value twice", fix)
    return tuple(values)
