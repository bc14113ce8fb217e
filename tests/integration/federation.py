"""A production rehearsal on this machine: `make federation`, or `python tests/integration/federation.py --out DIR`.

Provisions a server and three hospitals with certificates, each with its own folder, data and site file, on machines
that refuse code; trains FedSM at two of them while a site, a job process and the server are killed and come back; then
uses the super model at all three, one of which never trained. One line a step; the exit code is the number of steps
that failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parent / "faults")]

from play import Play  # noqa: E402
from provisioned import SERVER, Provisioned, wait  # noqa: E402

from fedsuper.config.reading import parse_study  # noqa: E402
from fedsuper.engines.flare.job import write_job  # noqa: E402
from fedsuper.engines.flare.launch.link import Link  # noqa: E402

TRAINED, OUTSIDE = ("site-1", "site-2"), "site-3"


class Rehearsal:
    """The steps in their order, on one federation."""

    def __init__(self, out: Path) -> None:
        self.place = Provisioned(out, (*TRAINED, OUTSIDE), images=60)
        self.out = self.place.out
        self.failed = 0

    @contextlib.contextmanager
    def step(self, text: str, needed: bool = False) -> Iterator[None]:
        """One line: what was done, whether it held, how long it took; a `needed` one that fails ends the play."""
        started = time.monotonic()
        try:
            yield
            print(f"ok    {text}  ({time.monotonic() - started:.0f} s)", flush=True)
        except (AssertionError, subprocess.SubprocessError, OSError) as problem:
            self.failed += 1
            print(f"FAIL  {text}: {' '.join(str(problem).split())[-300:]}", flush=True)
            if needed:
                raise SystemExit(self.failed) from None

    # --- the play ----------------------------------------------------------------------------------------------------

    def train(self, show: Play) -> int:
        """Two hospitals begin; the line after the first round."""
        show.start()
        return show.round(1)

    def kill_site(self, show: Play, at: int) -> int:
        """A whole hospital dies; the other goes on, and it is started again and joins."""
        self.place.kill_machine(TRAINED[1])
        at = show.sees("1/2 sites", at)
        self.place.start(TRAINED[1])
        at = show.sees(f"{TRAINED[1]}: is connected again", at)
        return show.sees("2/2 sites", at)

    def kill_job(self, show: Play, at: int) -> int:
        """A hospital's job process dies; the command submits the job again."""
        self.place.job(TRAINED[0]).kill()
        at = show.sees(f"{TRAINED[0]}: its job process died", at)
        return show.sees("2/2 sites", at)

    def kill_server(self, show: Play, at: int) -> None:
        """The server dies; its start script brings it back, and the command submits the job again."""
        self.place.server().kill()
        at = show.sees("starting again from the last complete round", at)
        show.ends(seconds=900)

    def infer(self, run: Path, mode: str) -> None:
        """Every site's masks, the outside-only one's too, are those of `fedsuper predict` on the same files."""
        for site in (*TRAINED, OUTSIDE):
            shutil.rmtree(self.place.machine(site) / "outbox", ignore_errors=True)
        self.place.call(*self.place.command("infer", str(run / "supermodel"), "--data", ".", "--out",
                                            str(self.out / f"infer-{mode}"), "--mode", mode)[2:])
        for site in (*TRAINED, OUTSIDE):
            desk = self.out / "desk" / mode / site
            machine = self.place.machine(site)
            self.place.call("fedsuper.cli", "predict", str(run / "supermodel"), str(machine / "data" / site), "--out",
                      str(desk), "--mode", mode)
            assert bits(machine / "outbox", "png") == bits(desk, "png"), f"{site} differs"
        told = json.loads((self.out / f"infer-{mode}" / "sites.json").read_text())
        assert set(told["sites"]) == {*TRAINED, OUTSIDE} and told["failed"] == {}

    def matrix(self, run: Path) -> None:
        """Every model at every site's test images, from data that never moves."""
        self.place.call(*self.place.command("infer", str(run / "supermodel"), "--data", ".", "--out",
                                            str(self.out / "matrix"), "--matrix")[2:])
        rows = [line.split(",") for line in (self.out / "matrix" / "matrix.csv").read_text().splitlines()]
        assert rows[0] == ["model", *TRAINED, OUTSIDE] and [row[0] for row in rows[1:4]] == ["global", *TRAINED], rows

    def refuse_code(self) -> None:
        """A job that carries a `custom` folder is never run."""
        write_job(parse_study({"method": "fedsm"}), self.out / "with-code" / "job", custom=True)
        link = Link(self.place.lead, lambda text: None)
        try:
            link.ask(lambda session: session.submit_job(str(self.out / "with-code" / "job")))
        finally:
            link.close()
        log = self.place.kits / SERVER / "log.txt"
        wait(lambda: "BYOC not permitted" in log.read_text(encoding="utf-8"), 60, "refused")

    def play(self) -> int:
        place = self.place
        with place.family.kept():
            with self.step("provision a server and three hospitals whose policies refuse code", needed=True):
                place.provision()
            with self.step("start the server and two hospitals", needed=True):
                place.start(SERVER, *TRAINED)
            with self.step("refuse a job that carries code"):
                self.refuse_code()
            place.sites = TRAINED  # of the study; the third hospital is for later
            show = Play(place, "run", seed=0, rounds=60, restarts=6)
            with self.step("submit FedSM", needed=True):
                at = self.train(show)
            with self.step("kill a hospital: the other goes on; bring it back: it joins at a round's end", needed=True):
                at = self.kill_site(show, at)
            with self.step("kill a hospital's job process: named, submitted again, goes on", needed=True):
                at = self.kill_job(show, at)
            with self.step("kill the server: comes back, the job is submitted again and the study ends", needed=True):
                self.kill_server(show, at)
            with self.step("the super model has the bits of an unbroken training with the same attendance"):
                show.check_bits()
            with self.step("a hospital joins that never trained"):
                place.start(OUTSIDE)
            for mode in ("select", "route"):
                with self.step(f"{mode} at all three: masks equal `fedsuper predict`, bit for bit"):
                    self.infer(show.run, mode)
            with self.step("score every model at every hospital"):
                self.matrix(show.run)
            place.close()
        with self.step("nothing is left running"):
            assert place.family.members() == []
        print(f"{self.failed} failed", flush=True)
        return self.failed


def bits(folder: Path, suffix: str) -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in folder.glob(f"*.{suffix}")}
    assert found, f"{folder}: holds no {suffix}"
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    if out.exists():
        shutil.rmtree(out)
    out.mkdir(parents=True)
    return Rehearsal(out).play()


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
