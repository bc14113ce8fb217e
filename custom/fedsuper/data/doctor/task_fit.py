"""Does a file fit the task: the channels of an image, the values of a label."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import mode

import numpy as np

from fedsuper.data.problems import DataProblem
from fedsuper.data.task import Task


def match_channels(array: np.ndarray, channels: int, path: Path) -> np.ndarray:
    """`array` `[Z, C, H, W]` with the task's channels, where that loses nothing.

    A gray file of a color task is repeated; a color file of a one-channel task is taken where it is really gray.
    """
    have = array.shape[1]
    if have == channels:
        return array
    if have == 1:
        return np.repeat(array, channels, axis=1)
    if channels == 1 and (array == array[:, :1]).all():
        return array[:, :1]
    fix = "convert the image, or correct 'channels' in dataset.json"
    raise DataProblem(path, f"has {have} channels, the task has {channels}", fix)


def unlike_the_rest(channels: Mapping[str, int], task: Task) -> tuple[int, list[str]]:
    """The channels that the sites' images usually have, and the sites whose images have others.

    `channels` are those of most images of each site, counted up to the task's (a color file of a gray task is gray).
    """
    counted = {site: min(count, task.channels) for site, count in channels.items()}
    usual = task.channels if task.channels in counted.values() else mode(counted.values() or [task.channels])
    return usual, sorted(site for site, count in counted.items() if count != usual)


def check_label_values(label: np.ndarray, task: Task, path: Path) -> list[int]:
    """The values a label holds; raises where the task does not know one of them.

    They are never mapped in silence: 255 may be the region, or what was not annotated.
    """
    if label.min() >= 0 and label.max() <= 255:
        found = np.flatnonzero(np.bincount(label.ravel())).tolist()
    else:
        found = np.unique(label).tolist()
    known = task.label_values
    strange = [value for value in found if value != 0 and value not in known]
    if not strange:
        return found
    shown = ", ".join(map(str, strange[:6])) + (", ..." if len(strange) > 6 else "")
    what = f"holds the label values {shown}; the task knows 0 (background) and {', '.join(map(str, known))}"
    if set(found) <= {0, 255} and len(known) == 1:
        raise DataProblem(path, what, f"save 255 as {known[0]} (for example mask // 255 * {known[0]})")
    if len(strange) > 20:
        raise DataProblem(path, what, "this looks like a picture, not a label: export the mask itself")
    raise DataProblem(path, what, "change these values in the label, or name them in dataset.json")
