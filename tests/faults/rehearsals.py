"""Faults on `--engine poc` and in the simulator, where the command owns every process and leaves none behind."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
from play import Play, Score
from provisioned import Provisioned, interrupted, wait

from fedsuper.data.synthetic.retina import write_retina


class OneMachine(Provisioned):
    """Hospitals that `--engine poc` or the simulator starts and ends by itself."""

    def __init__(self, out: Path, engine: str, sites: int = 3) -> None:
        super().__init__(out / engine, tuple(f"site-{number}" for number in range(1, sites + 1)), images=24)
        self.engine = engine
        if not (self.out / "all").exists():
            write_retina(self.out / "all", sites=sites, images=self.images, size=48, seed=0, difficulty="easy")

    def data_root(self, site: str) -> Path:
        return self.out / "all"

    def command(self, *arguments: str) -> list[str]:
        given = [str(self.out / "all") if word == "." else word for word in arguments]
        return [sys.executable, "-m", "fedsuper.cli", *given, "--engine", self.engine]


class Rehearsed(Play):
    """A run that owns its processes."""

    def state(self, site: str) -> Path:
        return self.run / "state" / "sites" / site

    def members(self, *words: str) -> list[psutil.Process]:
        """The run's processes whose command line holds all of `words`, wherever they were started from.

        The simulator is a fork of the command: it shows the command's environment, and writes into the run's log.
        """
        found = []
        log = str((self.run / "nvflare.log").resolve())
        for process in psutil.process_iter():
            try:
                command = " ".join(process.cmdline())
                mine = str(self.run) in process.environ().get("FEDSUPER_STATE", "") \
                    or os.readlink(f"/proc/{process.pid}/fd/1") == log
            except (psutil.Error, OSError):
                continue
            if mine and all(word in command for word in words):
                found.append(process)
        return found

    def simulated(self) -> dict[str, psutil.Process]:
        """The simulator's process (of those that are no site the one with most threads) as `server`, and every site's,
        which is a fork and known by its own name."""
        members = {process.pid: process for process in self.members()}
        found = {process.name(): process for process in members.values() if process.name() in self.place.sites}
        others = [process for process in members.values() if process.name() not in self.place.sites]
        return found | ({"server": max(others, key=lambda each: each.num_threads())} if others else {})


def poc(out: Path, score: Score) -> None:
    """A rehearsal that is interrupted, resumed, and loses a site's job process."""
    place = OneMachine(out, "poc")
    show = Rehearsed(place, "poc", seed=10, rounds=12)
    show.paced("site-1")
    show.start()
    at = show.round(1)
    with score.fault("poc: Ctrl-C ends every process; --resume goes on"):
        assert show.process is not None
        interrupted(show.process)
        show.ends(code=130)
        wait(lambda: not show.members(), 30, "no process left")
        at = len(show.lines)
        show.start("--resume")
        at = show.sees("3/3 sites", at)
    with score.fault("poc: a site's job process killed: named, and submitted again"):
        show.members("worker_process", "site-2")[0].kill()
        at = show.sees("site-2: its job process died, and with it the job; starting again", at)
    with score.fault("poc: ends with nobody left behind"):
        show.ends()
        wait(lambda: not show.members(), 30, "no process left")
    score.settle(show, show.check_bits)


def poc_killed(out: Path, score: Score) -> None:
    """The command is killed outright."""
    place = OneMachine(out, "poc")
    show = Rehearsed(place, "poc-killed", seed=11, rounds=6)
    show.paced("site-1")
    show.start()
    show.round(1)
    with score.fault("poc: the command killed (SIGKILL): every process ends with it; --resume goes on"):
        assert show.process is not None
        show.process.kill()
        show.process.wait()
        wait(lambda: not show.members(), 60, "no process left")
        show.start("--resume")
        show.ends()
    score.settle(show, show.check_bits)


def simulator(out: Path, score: Score) -> None:
    """A simulated site dies, then the simulator itself."""
    place = OneMachine(out, "sim")
    show = Rehearsed(place, "sim", seed=12, rounds=40)
    show.start()
    at = show.round(1)
    with score.fault("simulator: a site's process killed: named, and started again"):
        show.simulated()["site-2"].kill()
        at = show.sees("site-2: its process died", at)
        at = show.sees("3/3 sites", at)
    with score.fault("simulator: the simulator killed: started again"):
        show.simulated()["server"].kill()
        at = show.sees("starting again", at)
        show.ends()
        wait(lambda: not show.members(), 30, "no process left")
    score.settle(show, show.check_bits)


PLAYS: dict[str, Callable[[Path, Score], None]] = {"poc": poc, "poc-killed": poc_killed, "sim": simulator}
