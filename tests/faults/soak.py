"""`make soak`: 200 rounds of a tiny study in the simulator; memory and disk must not grow with the rounds.

Memory goes up and down by tens of megabytes within a round, so every process is read twenty times a second through the
ten rounds around round 60 and through ten that end five before the last, after which the super model is written. The
medians are compared: late the server and each site are within 5% of what they were. NVFlare remembers every message
for ten seconds, each with a thread of its own: with rounds of a quarter of a second the first forty fill that memory,
and do not count. On disk only what tells of every round may grow, a bounded number of bytes for each; all the rest
(states, messages, the simulator's workspace) must not.
The models of the rounds that are kept go up and down: a best one is a file of its own once the round it comes from is
gone.

    python tests/faults/soak.py --out runs/soak [--rounds 200]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from rehearsals import OneMachine, Rehearsed  # noqa: E402

from fedsuper.files import PARTIAL  # noqa: E402

EARLY, AROUND = 60, 5
PERIOD = 0.05  # seconds between two readings
MOST_GROWTH = 0.05
BYTES_A_ROUND = 4_000  # of history in the five checkpoints that are kept, of the tables, events and audits of two sites
MOST_MODELS = 1.25  # of the bytes of the early rounds' models
BYTES_OF_THE_REST = 20_000  # in all: files that are rewritten differ by a few bytes
TELLING = ("round-*.safetensors", "rounds.csv", "events.jsonl", "audit.jsonl")  # of every round


class Reading:
    """What was read around a round: megabytes and threads of every process, and the disk in the end."""

    def __init__(self, show: Rehearsed, first: int, last: int, at: int) -> None:
        self.last = last
        at = show.sees(f"round {first}/", at)
        processes = show.simulated()
        taken: dict[str, list[tuple[float, int]]] = {name: [] for name in sorted(processes)}
        while not any(f"round {last}/" in line for line in show.lines[at:]):
            assert show.process is not None and show.process.poll() is None, show.tail()
            for name, readings in taken.items():
                readings.append((processes[name].memory_info().rss / 1e6, processes[name].num_threads()))
            time.sleep(PERIOD)
        self.at = show.sees(f"round {last}/", at)
        self.memory = {name: median(rss for rss, _ in readings) for name, readings in taken.items()}
        self.spread = {name: (min(readings)[0], max(readings)[0]) for name, readings in taken.items()}
        self.threads = {name: median(threads for _, threads in readings) for name, readings in taken.items()}
        self.telling, self.models, self.rest = sizes(show.run)

    def tell(self) -> None:
        parts = [f"{name} {self.memory[name]:.0f} MB ({self.spread[name][0]:.0f} to {self.spread[name][1]:.0f}), "
                 f"{self.threads[name]:.0f} threads" for name in self.memory]
        print(f"round {self.last}: {'; '.join(parts)}; disk {self.telling / 1e6:.3f} MB tell of the rounds, "
              f"{self.models / 1e6:.3f} MB of models, {self.rest / 1e6:.3f} MB of the rest", flush=True)


def sizes(folder: Path) -> tuple[int, int, int]:
    """Bytes of the files that tell of every round, of the server's models, and of all others but logs, which begin anew
    at 20 MB, and files that are being written."""
    telling = models = rest = 0
    for path in folder.rglob("*"):
        try:
            passing = path.name.startswith(("log", "nvflare.log", PARTIAL)) or not path.is_file()
            size = 0 if passing else path.stat().st_size
        except FileNotFoundError:  # a file that was being replaced
            continue
        if any(path.match(pattern) for pattern in TELLING):
            telling += size
        elif path.match("server/models/*"):
            models += size
        else:
            rest += size
    return telling, models, rest


def main() -> int:
    """Run, measure, compare; the exit code is the number of promises missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    started, rounds = time.monotonic(), options.rounds
    show = Rehearsed(OneMachine(options.out.absolute(), "sim", sites=2), "soak", seed=0, rounds=rounds)
    show.start()
    at, readings = 0, []
    for last in (EARLY + AROUND, *range(EARLY + 40 + AROUND, rounds - 5 * AROUND, 40), rounds - AROUND):
        readings.append(Reading(show, last - 2 * AROUND, last, at))
        at = readings[-1].at
        readings[-1].tell()
    show.ends()
    early, late = readings[0], readings[-1]
    growth = {name: late.memory[name] / early.memory[name] - 1 for name in early.memory if name in late.memory}
    misses = [f"{name} grew by {more:.1%}" for name, more in growth.items() if more > MOST_GROWTH]
    misses += [f"{name} is gone" for name in early.memory if name not in late.memory]
    a_round = (late.telling - early.telling) / (late.last - early.last)
    if a_round > BYTES_A_ROUND:
        misses.append(f"a round leaves {a_round:.0f} bytes on disk")
    if late.rest - early.rest > BYTES_OF_THE_REST:
        misses.append(f"the rest of the disk grew by {(late.rest - early.rest) / 1e3:.0f} kB")
    if late.models > MOST_MODELS * early.models:
        misses.append(f"the models of the kept rounds grew from {early.models} to {late.models} bytes")
    shown = ", ".join(f"{name} {more:+.1%}" for name, more in growth.items())
    print(f"{rounds} rounds in {(time.monotonic() - started) / 60:.1f} min; memory {shown}; disk {a_round:+.0f} bytes "
          f"a round, the rest {(late.rest - early.rest) / 1e3:+.1f} kB; {'; '.join(misses) or 'all promises held'}",
          flush=True)
    return len(misses)


if __name__ == "__main__":
    sys.exit(main())
