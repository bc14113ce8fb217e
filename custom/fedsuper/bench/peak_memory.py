"""The most memory this process has held."""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable
from pathlib import Path

MEGABYTE = 1e6
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_megabytes() -> float:
    """Megabytes (10^6). Where the kernel tells, the process's own: getrusage counts the parent's as well."""
    found = _told("VmHWM:")
    return found if found is not None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MEGABYTE


def resident_megabytes() -> float:
    """What it holds now, shared pages of files not counted; the peak where the kernel does not tell."""
    found = _told("RssAnon:")
    return found if found is not None else peak_megabytes()


def scratch_megabytes(work: Callable[[], object], made: float) -> float:
    """How far memory rises above what was held before and the `made` megabytes that the work hands back."""
    gc.collect()
    if RESET.exists():
        RESET.write_text("5")  # the peak counts from now
    before = _told("VmRSS:") or 0.0
    result = work()
    rise = peak_megabytes() - before
    del result
    return max(0.0, rise - made)


def _told(line: str) -> float | None:
    if not STATUS.exists():
        return None
    found = next((text for text in STATUS.read_text().splitlines() if text.startswith(line)), None)
    return int(found.split()[1]) * 1024 / MEGABYTE if found else None
