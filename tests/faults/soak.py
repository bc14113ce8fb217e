"""`make soak`: 200 rounds of a tiny study in the simulator; memory and disk must not grow with the rounds.

Memory goes up and down by some megabytes with what is in flight when it is read, so every process is read at each of
the eleven rounds around round 20 and at each of the last eleven, and the medians are compared: at the end the server
and each site are within 5% of what they were. On disk only what tells of every round may grow, a bounded number of
bytes for each; all the rest (weights, states, messages, the simulator's workspace) must not.

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

EARLY, AROUND = 20, 5
MOST_GROWTH = 0.05
BYTES_A_ROUND = 4_000  # of history in the five checkpoints that are kept, of the tables, events and audits of two sites
BYTES_OF_THE_REST = 20_000  # in all: files that are rewritten differ by a few bytes
TELLING = ("round-*.safetensors", "rounds.csv", "events.jsonl", "audit.jsonl")  # of every round


class Reading:
    """What was read around a round: megabytes and threads of every process, and the disk in the end."""

    def __init__(self, show: Rehearsed, first: int, last: int, at: int) -> None:
        self.last = last
        taken: list[dict[str, tuple[float, int]]] = []
        for number in range(first, last + 1):
            at = show.sees(f"round {number}/", at)
            taken.append({name: (each.memory_info().rss / 1e6, each.num_threads())
                          for name, each in show.simulated().items()})
        self.at = at
        names = sorted(set.intersection(*(set(each) for each in taken)))
        self.memory = {name: median(each[name][0] for each in taken) for name in names}
        self.spread = {name: (min(each[name][0] for each in taken), max(each[name][0] for each in taken))
                       for name in names}
        self.threads = {name: median(each[name][1] for each in taken) for name in names}
        self.telling, self.rest = sizes(show.run)

    def tell(self) -> None:
        parts = [f"{name} {self.memory[name]:.0f} MB ({self.spread[name][0]:.0f} to {self.spread[name][1]:.0f}), "
                 f"{self.threads[name]:.0f} threads" for name in self.memory]
        print(f"round {self.last}: {'; '.join(parts)}; disk {self.telling / 1e6:.3f} MB tell of the rounds, "
              f"{self.rest / 1e6:.3f} MB of the rest", flush=True)


def sizes(folder: Path) -> tuple[int, int]:
    """Bytes of the files that tell of every round, and of all others but logs, which begin anew at 20 MB, and files
    that are being written."""
    telling = rest = 0
    for path in folder.rglob("*"):
        try:
            passing = path.name.startswith(("log", "nvflare.log", PARTIAL)) or not path.is_file()
            size = 0 if passing else path.stat().st_size
        except FileNotFoundError:  # a file that was being replaced
            continue
        if any(path.match(pattern) for pattern in TELLING):
            telling += size
        else:
            rest += size
    return telling, rest


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
    for last in (EARLY + AROUND, *range(EARLY + 40 + AROUND, rounds - 4 * AROUND, 40), rounds):
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
    shown = ", ".join(f"{name} {more:+.1%}" for name, more in growth.items())
    print(f"{rounds} rounds in {(time.monotonic() - started) / 60:.1f} min; memory {shown}; disk {a_round:+.0f} bytes "
          f"a round, the rest {(late.rest - early.rest) / 1e3:+.1f} kB; {'; '.join(misses) or 'all promises held'}",
          flush=True)
    return len(misses)


if __name__ == "__main__":
    sys.exit(main())
