"""The server's disk is full: the study waits for room with nothing torn, and goes on."""

from __future__ import annotations

import psutil
from play import Play, Score
from provisioned import SERVER, Provisioned

from fedsuper.files import PARTIAL
from fedsuper.train.checkpoint import load_models

ANY = (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY)


def play(place: Provisioned, score: Score) -> None:
    """Neither checkpoint nor events nor logs can be written for a while."""
    show = Play(place, "full", seed=13, rounds=8)
    show.paced(place.sites[0])
    show.start()
    at = show.round(1)
    with score.fault("the server's disk is full: one line, nothing torn, the same job goes on when there is room"):
        job = place.job(SERVER)
        job.rlimit(psutil.RLIMIT_FSIZE, (2000, psutil.RLIM_INFINITY))
        try:
            at = show.sees("the study waits for room", at)
            kept = list((place.machine(SERVER) / "state").glob("*/server/round-*"))
            assert kept
            for path in kept:
                load_models(path)
                assert not list(path.parent.glob(f"{PARTIAL}*"))
        finally:
            job.rlimit(psutil.RLIMIT_FSIZE, ANY)
        at = show.sees("there is room on the disk again", at)
        at = show.sees("3/3 sites", at)
        show.ends()
        assert not any("starting again" in line for line in show.lines)
        assert sum("cannot be written" in line for line in show.lines) == 1
    score.settle(show, show.check_bits)
