"""`make soak`: 200 rounds of a tiny study in the simulator; memory and disk must not grow with the rounds.

Every process is measured when round 20 and when the last round ends. Memory of the server and of each site at the end
is within 5% of what it was at round 20; the run's folder has not grown by more than the history of its rounds.

    python tests/faults/soak.py --out runs/soak [--rounds 200]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from rehearsals import OneMachine, Rehearsed  # noqa: E402

EARLY = 20
MOST_GROWTH = 0.05
BYTES_A_ROUND = 10_000  # of history, in each checkpoint that is kept, and of tables


def measured(show: Rehearsed) -> dict[str, tuple[float, int]]:
    """Resident megabytes and threads of the server and of every site."""
    processes = show.simulated()
    return {name: (each.memory_info().rss / 1e6, each.num_threads()) for name, each in processes.items()}


def size_of(folder: Path) -> int:
    """Bytes of all but logs, which NVFlare and we begin anew at 20 MB."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(("log", "nvflare.log"))]
    return sum(path.stat().st_size for path in files)


def tell(number: int, memory: Mapping[str, tuple[float, int]], disk: int) -> None:
    parts = [f"{name} {rss:.0f} MB, {threads} threads" for name, (rss, threads) in sorted(memory.items())]
    print(f"round {number}: {'; '.join(parts)}; disk {disk / 1e6:.2f} MB", flush=True)


def main() -> int:
    """Run, measure, compare; the exit code is the number of promises missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    started = time.monotonic()
    show = Rehearsed(OneMachine(options.out.absolute(), "sim", sites=2), "soak", seed=0, rounds=options.rounds)
    show.start()
    at, taken = 0, {}
    for number in sorted({EARLY, *range(EARLY, options.rounds, 40), options.rounds}):
        at = show.sees(f"round {number}/", at)
        taken[number] = measured(show), size_of(show.run)
        tell(number, *taken[number])
    show.ends()
    (early, disk), (late, disk_late) = taken[EARLY], taken[options.rounds]
    misses = [f"{name} grew by {late[name][0] / early[name][0] - 1:.1%}" for name in early
              if name not in late or late[name][0] > (1 + MOST_GROWTH) * early[name][0]]
    if disk_late - disk > BYTES_A_ROUND * (options.rounds - EARLY):
        misses.append(f"the disk grew by {(disk_late - disk) / 1e6:.2f} MB")
    growth = {name: f"{late[name][0] / early[name][0] - 1:+.1%}" for name in early if name in late}
    print(f"{options.rounds} rounds in {(time.monotonic() - started) / 60:.1f} min; memory {growth}, disk "
          f"{(disk_late - disk) / 1e3:+.0f} kB; {'; '.join(misses) or 'all promises held'}", flush=True)
    return len(misses)


if __name__ == "__main__":
    sys.exit(main())
