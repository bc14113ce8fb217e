"""What may happen to one site's processes while the job goes on: the site loses the round, by name, and is back."""

from __future__ import annotations

import signal

import psutil
from pace import in_mid_task
from play import Play, Score
from provisioned import Provisioned, wait


def strike(show: Play, site: str, how: int) -> None:
    """End a site's training process in the middle of a task."""
    trainer = in_mid_task(show.state(site))
    trainer.send_signal(how)
    if how != signal.SIGKILL:
        trainer.resume()


def play(place: Provisioned, score: Score) -> None:
    """One job, slowed down by a site that is not struck; a sound round in between."""
    one, two, three = place.sites
    show = Play(place, "inside", seed=1, rounds=60, round_timeout=90)
    pace = show.paced(three)
    show.start()
    at = show.round(1)
    with score.fault("training killed in mid-round, as for lack of memory: named, and back in the next round"):
        strike(show, one, signal.SIGKILL)
        at = show.sees(f"warning: {one}: left out of the round (its training process died (exit -9)", at)
        at = show.sees("3/3 sites", at)
    with score.fault("training crashes (segmentation fault)"):
        strike(show, two, signal.SIGSEGV)
        at = show.sees(f"warning: {two}: left out of the round (its training process died (exit -11)", at)
        at = show.sees("3/3 sites", at)
    with score.fault("training hangs: ended at the round's deadline, and back"):
        pace.move(two)
        place.trainer(three).suspend()
        at = show.sees(f"warning: {three}: left out of the round (was not done within", at)
        at = show.sees("3/3 sites", at)
        pace.move(three)
    with score.fault("the disk of a site is full: one line, nothing torn, goes on when there is room"):
        trainer = place.trainer(one)
        trainer.rlimit(psutil.RLIMIT_FSIZE, (2000, psutil.RLIM_INFINITY))
        at = show.sees(f"warning: {one}: left out of the round (the file would be larger", at)
        trainer.rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))
        at = show.sees("3/3 sites", at)
    with score.fault("a site's job process is frozen: not waited for, welcomed back when it thaws"):
        worker = place.job(two)
        worker.suspend()
        at = show.sees(f"warning: {two}: left out of the round (it is not connected: no sign of life", at)
        worker.resume()
        at = show.sees(f"{two}: is back", at)
    with score.fault("a site's images are gone for a while"):
        pace.move(two)
        data = place.machine(three) / "data" / three
        data.rename(data.with_name("moved"))
        place.trainer(three).kill()
        try:
            at = show.sees("has no site", at)
            assert f"warning: {three}: left out of the round (" in show.lines[at - 1], show.lines[at - 1]
        finally:
            data.with_name("moved").rename(data)
        at = show.sees("3/3 sites", at)
    with score.fault("the command ends by itself, after all of these"):
        show.ends()
        wait(lambda: not [p for site in place.sites for p in place.processes(site, "site_process")], 60, "trainers end")
    score.settle(show, show.check_bits)
