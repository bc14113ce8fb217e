"""The server's disk is full: the study waits for room with nothing torn, and goes on.

What a process may write to one file is limited from outside, which the system answers as it answers a full disk.
"""

from __future__ import annotations

import time

import psutil
from play import Play, Score
from provisioned import SERVER, Provisioned

from fedsuper.federation.checkpoints import MODELS
from fedsuper.files import PARTIAL
from fedsuper.train.checkpoint import load_models
from fedsuper.train.model_files import ModelFiles

SMALLER_THAN_A_SELECTOR = 200_000  # bytes
ANY = (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY)


def play(place: Provisioned, score: Score) -> None:
    """No room for a checkpoint, then not even for a line of a log."""
    show = Play(place, "full", seed=13, rounds=12)
    show.paced(place.sites[0])
    show.start()
    at = show.round(1)
    job = place.job(SERVER)
    with score.fault("the server's disk is full: one line, nothing torn, the same job goes on when there is room"):
        job.rlimit(psutil.RLIMIT_FSIZE, (SMALLER_THAN_A_SELECTOR, psutil.RLIM_INFINITY))
        try:
            at = show.sees("cannot be written (the file would be larger than", at)
            assert "the study waits for room" in show.lines[at - 1]
            kept = list((place.machine(SERVER) / "state").glob("*/server/round-*"))
            assert kept
            for path in kept:
                files = ModelFiles(path.parent / MODELS)
                for name in load_models(path)[1][MODELS].values():
                    files.read(name)
        finally:
            job.rlimit(psutil.RLIMIT_FSIZE, ANY)
        at = show.sees("there is room on the disk again", at)
        at = show.sees("3/3 sites", at)
    with score.fault("the server cannot write a byte: NVFlare gives out no task, and goes on when there is room"):
        job.rlimit(psutil.RLIMIT_FSIZE, (1, psutil.RLIM_INFINITY))
        time.sleep(8)  # longer than a round
        job.rlimit(psutil.RLIMIT_FSIZE, ANY)
        at = show.sees("3/3 sites", len(show.lines))
        show.ends()
        assert not any("starting again" in line for line in show.lines)
        assert not list((place.machine(SERVER) / "state").rglob(f"{PARTIAL}*"))
    score.settle(show, show.check_bits)
