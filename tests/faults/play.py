"""One study that runs while things break, and the unbroken study with the same attendance that it is held to."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from attended import unbroken
from pace import Pace
from provisioned import Provisioned
from run_folders import weights

from fedsuper.config.reading import parse_study
from fedsuper.inference.supermodel_manifest import read_manifest

STUDY: dict[str, Any] = {
    "method": "fedsm", "image_size": 32, "optimizer": {"lr": 0.01},
    "model": {"name": "plain-unet", "channels": [4, 8], "norm": "batch"},
}
LONGEST = 600.0  # seconds for anything that is waited for


class Play:
    """`fedsuper run` in a process of its own; what it prints is read as it comes."""

    def __init__(self, place: Provisioned, name: str, seed: int, rounds: int, **federation: Any) -> None:
        self.place = place
        self.run = place.out / "runs" / name
        self.study = {**STUDY, "rounds": rounds, "seed": seed,
                      "federation": {"away_after": 6, "round_timeout": 600, **federation}}
        self.file = place.out / f"{name}.yaml"
        self.file.write_text(yaml.safe_dump(self.study))
        self.lines: list[str] = []
        self.process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._news = threading.Condition()
        self.pace: Pace | None = None

    def paced(self, site: str) -> Pace:
        """From now on a site is slow, so that the study does not end before the play does."""
        self.pace = Pace({each: self.state(each) for each in self.place.sites}, site)
        return self.pace

    def state(self, site: str) -> Path:
        """Where a site keeps what it needs between rounds."""
        return self.place.machine(site) / "state"

    def start(self, *more: str) -> None:
        """Start the command; an earlier one of this play must have ended."""
        command = self.place.command("run", str(self.file), "--data", ".", "--out", str(self.run), *more)
        self.process = subprocess.Popen(command, env=self.place.environment(), stdin=subprocess.DEVNULL, text=True,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=heeding_ctrl_c)
        self._reader = threading.Thread(target=self._read, args=[self.process], daemon=True)
        self._reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            with self._news:
                self.lines.append(line.rstrip())
                self._news.notify_all()

    def sees(self, text: str, after: int = 0, seconds: float = LONGEST) -> int:
        """Wait for a line that holds `text`, not before line `after`; the number of the line that follows it."""
        deadline = time.monotonic() + seconds
        with self._news:
            while True:
                for number, line in enumerate(self.lines[after:], start=after):
                    if text in line:
                        return number + 1
                assert self._reader is not None and self._reader.is_alive(), f"no '{text}'; {self.tail()}"
                self._news.wait(0.5)
                assert time.monotonic() < deadline, f"'{text}' not within {seconds:.0f} s; {self.tail()}"

    def round(self, number: int, after: int = 0) -> int:
        """Wait for the end of a round."""
        return self.sees(f"round {number}/", after)

    def ends(self, code: int = 0, seconds: float = LONGEST) -> None:
        """The command returns, with this exit code; the sites are no slower than they are."""
        assert self.process is not None
        if self.pace is not None and code == 0:
            self.pace.stop()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the command did not return within {seconds:.0f} s; {self.tail()}") from None
        assert self.process.returncode == code, self.tail()

    def close(self) -> None:
        """End the command, if it still runs."""
        if self.pace is not None:
            self.pace.stop()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def tail(self) -> str:
        return "last lines: " + " | ".join(self.lines[-4:])

    # --- what is held to what ----------------------------------------------------------------------------------------

    def missing(self) -> list[list[str]]:
        """Who missed each round, and the last entry the final validation, as the super model's history has it."""
        return [entry["missing"] for entry in read_manifest(self.run / "supermodel")["history"]]

    def check_bits(self) -> None:
        """The super model is, bit for bit, that of an unbroken training in one process with the same attendance."""
        with tempfile.TemporaryDirectory() as folder:
            newcomers = self.study["federation"].get("newcomers", "refuse")
            study = parse_study({**self.study, "federation": {"newcomers": newcomers}})
            roots = {site: self.place.data_root(site) for site in sorted(self.place.sites)}
            joined = read_manifest(self.run / "supermodel").get("joined")
            unbroken(study, roots, self.missing(), Path(folder), joined)
            assert weights(self.run / "supermodel") == weights(Path(folder) / "supermodel"), "other bits than unbroken"


class Score:
    """One line a fault, and how many held."""

    def __init__(self, only: str = "") -> None:
        self.only = only
        self.passed = 0
        self.failed = 0
        self.problem: str | None = None
        self._waiting: list[tuple[str, float]] = []

    @contextmanager
    def fault(self, text: str) -> Iterator[None]:
        """A fault of a play that goes on; it counts when the play has ended with the right bits."""
        started = time.monotonic()
        if self.problem is not None:
            self._tell("FAIL", f"{text}: not tried, the play had ended")
            raise SkippedError
        try:
            yield
            self._waiting.append((text, time.monotonic() - started))
        except SkippedError:
            raise
        except Exception as problem:  # whatever it is, the next play is tried
            self.problem = " ".join(str(problem).split())[-400:] or type(problem).__name__
            self._tell("FAIL", f"{text}: {self.problem}")
            raise SkippedError from None

    def settle(self, play: Play, held: Callable[[], None]) -> None:
        """The play is over: its faults held where its bits are right."""
        try:
            held()
            ending = "PASS"
        except Exception as problem:
            ending = "FAIL"
            self.problem = " ".join(str(problem).split())[-400:]
        for text, seconds in self._waiting:
            self._tell(ending, f"{text}  ({seconds:.0f} s)" + ("" if ending == "PASS" else f": {self.problem}"))
        self._waiting = []
        self.problem = None
        play.close()

    def abandon(self) -> None:
        """A play was broken off by a fault that did not hold: those before it are not known to hold either."""
        for text, _ in self._waiting:
            self._tell("FAIL", f"{text}: its play did not end ({self.problem})")
        self._waiting = []
        self.problem = None

    def _tell(self, ending: str, text: str) -> None:
        self.passed += ending == "PASS"
        self.failed += ending == "FAIL"
        print(f"{ending}  {text}", flush=True)


def heeding_ctrl_c() -> None:
    """As on a terminal, also where the plays themselves run in the background, which ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class SkippedError(Exception):
    """The rest of a play is not tried."""


def job_of(run: Path) -> str:
    """The job that works for a run's folder."""
    return str(json.loads((run / "job.json").read_text())["job"])
