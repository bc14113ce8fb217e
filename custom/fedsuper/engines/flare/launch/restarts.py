"""A run that was broken off goes on by itself: `federation.restarts` times, from the last complete round, same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fedsuper.engines.flare.launch.events import EventReader
from fedsuper.errors import FedSuperError
from fedsuper.federation.checkpoints import Resume

Result = TypeVar("Result")


class BrokenOffError(FedSuperError):
    """Not the study ended but a process or a machine that it ran on; what was computed so far stands."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason


class PausedError(BrokenOffError):
    """The run ended itself after a round, to be joined by a site; it goes on as often as that happens."""


def restarted(
    restarts: int, reader: EventReader, resume: bool | Resume, attempt: Callable[[bool | Resume], Result]
) -> Result:
    """What `attempt` gives, tried again after each break; the last one is the user's to see."""
    going: bool | Resume = Resume.of(resume) or False
    left = restarts
    while True:
        try:
            return attempt(going)
        except BrokenOffError as problem:
            if not isinstance(problem, PausedError):
                if left == 0:
                    raise
                left -= 1
            going = _after(going, reader.round)
            where = "from the last complete round" if going else "from the beginning"
            reader.progress.note(f"{problem.reason}; starting again {where} (restarts left: {left})")
            reader.begin_again()


def _after(going: bool | Resume, shown: int | None) -> bool | Resume:
    """How the next attempt goes on; one that completed no round begins where the one before began."""
    if shown is None:
        return going
    before = Resume.of(going)
    return Resume(without=before.without if before else ())
