"""What may happen to the command that submitted a study: the job is the server's, and there is never a second one."""

from __future__ import annotations

import subprocess

from play import Play, Score, job_of
from provisioned import Provisioned, interrupted


def play(place: Provisioned, score: Score) -> None:
    """Left, killed, doubled; the job goes on through all of it."""
    show = Play(place, "commands", seed=6, rounds=20)
    pace = show.paced(place.sites[0])
    show.start()
    at = show.round(1)
    first = job_of(show.run)
    with score.fault("Ctrl-C: the command ends, the job goes on, --resume follows the same job"):
        with pace.held():
            assert show.process is not None
            interrupted(show.process)
            show.ends(code=130)
            show.start("--resume")
            at = show.sees(f"job {first} is still at work: following it", at)
        at = show.sees("3/3 sites", at)
    with score.fault("the command killed: --resume follows the same job"):
        with pace.held():
            assert show.process is not None
            show.process.kill()
            show.process.wait()
            show.start("--resume")
            at = show.sees(f"job {first} is still at work: following it", at)
        at = show.sees("3/3 sites", at)
    with score.fault("a second --resume on the same folder: refused, the first goes on"):
        command = place.command("run", str(show.file), "--data", ".", "--out", str(show.run), "--resume")
        with pace.held():
            second = subprocess.run(command, env=place.environment(), capture_output=True, text=True, timeout=300)
        assert second.returncode == 2 and "at work here already" in second.stderr, second.stderr[-300:]
    with score.fault("the study ends under its first job"):
        show.ends()
        assert not any("submitted as job" in line for line in show.lines[at:])
    score.settle(show, show.check_bits)


def first_second(place: Provisioned, score: Score) -> None:
    """Killed before anything was done."""
    show = Play(place, "early", seed=7, rounds=3)
    with score.fault("the command killed in its first seconds: --resume runs the study once"):
        show.start()
        show.sees("run: ")
        assert show.process is not None
        show.process.kill()
        show.process.wait()
        show.start("--resume")
        show.ends()
    score.settle(show, show.check_bits)
