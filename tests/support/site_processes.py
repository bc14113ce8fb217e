"""Finding the processes of a running federation."""

from __future__ import annotations

import psutil


def worker_of(site: str, run: psutil.Process) -> psutil.Process | None:
    """The simulator's process for a site."""
    for process in run.children(recursive=True):
        try:
            if process.name() == site:
                return process
        except psutil.Error:
            continue
    return None
