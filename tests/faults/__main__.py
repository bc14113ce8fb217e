"""`make faults`: faults in a running federation of real processes, one line each; the exit code says how many failed.

A server and three hospitals are provisioned once, with certificates and policies that refuse code, and started as their
owners would. Plays run one after another on them; each ends with a super model that must be, bit for bit, that of an
unbroken training in one process with the same attendance. The last plays are on `--engine poc`.

    python tests/faults --out runs/faults [--only WORD]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

import commands  # noqa: E402
import full_disk  # noqa: E402
import inside_a_site  # noqa: E402
import jobs_that_die  # noqa: E402
import rehearsals  # noqa: E402
import state  # noqa: E402
import whole_sites  # noqa: E402
from play import Score, SkippedError  # noqa: E402
from provisioned import SERVER, Provisioned  # noqa: E402

PLAYS = {
    "inside": inside_a_site.play, "jobs": jobs_that_die.play, "come-and-go": whole_sites.come_and_go,
    "frozen": whole_sites.frozen, "few": whole_sites.too_few, "commands": commands.play,
    "early": commands.first_second, "state": state.play, "leaver": state.leaver,
    "full": full_disk.play, "newcomer": whole_sites.newcomer,
}


def main() -> int:
    """Every play, or those that `--only` names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help=f"some of {','.join([*PLAYS, *rehearsals.PLAYS])}")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else [*PLAYS, *rehearsals.PLAYS]
    shutil.rmtree(options.out, ignore_errors=True)
    started, score = time.monotonic(), Score()
    place = Provisioned(options.out, ("site-1", "site-2", "site-3"), images=24)
    with place.family.kept():
        if set(chosen) & set(PLAYS):
            place.provision()
            place.start(SERVER, *place.sites)
            print(f"a server and three hospitals are up  ({time.monotonic() - started:.0f} s)", flush=True)
        for name in chosen:
            if name in PLAYS:
                try:
                    PLAYS[name](place, score)
                except SkippedError:
                    score.abandon()
                    recover(place)
        place.close()
    for name in chosen:
        if name in rehearsals.PLAYS:
            try:
                rehearsals.PLAYS[name](options.out.absolute(), score)
            except SkippedError:
                score.abandon()
    print(f"{score.passed} passed, {score.failed} failed  ({(time.monotonic() - started) / 60:.0f} min)", flush=True)
    return score.failed


def recover(place: Provisioned) -> None:
    """After a play that broke off: all machines anew, so that the next one begins on sound ones."""
    for name in (*place.sites, SERVER):
        for process in place.processes(name):
            process.resume()
        place.kill_machine(name)
    place.close()
    place.start(SERVER, *place.sites)


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
