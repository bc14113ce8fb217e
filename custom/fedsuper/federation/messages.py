"""What passes between server and site, whatever carries it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fedsuper.core.state import Models

# The tasks of a study, in the order in which the server sends them.
DESCRIBE = "describe"  # site -> its task, sample counts, fingerprint, software version
TRAIN = "train"  # one round
FINISH = "finish"  # validate the final models; send up the models that only the site holds
HANDOVER = "handover"  # a share of the super model goes to every site; feature sums and gamma statistics come back
CALIBRATE = "calibrate"  # all sites' sums and the server's choices go to every site; counts come back
SETTLE = "settle"  # gamma and manifest go to every site; its test scores come back
TASKS = (DESCRIBE, TRAIN, FINISH, HANDOVER, CALIBRATE, SETTLE)


Rest = Callable[[dict[str, Any]], dict[str, Any]]
Heard = Callable[[str, "Message | SiteFailure"], None]


def unheard(site: str, reply: Message | SiteFailure) -> None:
    """Answers are read when all have come."""


def as_it_is(tensors: dict[str, Any]) -> dict[str, Any]:
    """Answers stay in memory."""
    return tensors


@dataclass
class Message:
    """Models by role, and plain JSON. One message per site and direction.

    `carried` is how many bytes travelled for it, where whatever carried it counts them. `digest` is the SHA-256 of an
    answer that was written down as it left, so that it is not taken twice.
    """

    models: Models = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)
    carried: int | None = field(default=None, compare=False)
    digest: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SiteFailure:
    """A site that did not answer in time, or answered with an error: one line that says why.

    `absent` is a site that gave no answer at all, `late` one of these that was waited for until the deadline.
    """

    reason: str
    absent: bool = field(default=False, compare=False)
    late: bool = field(default=False, compare=False)


class Exchange(Protocol):
    """How a server reaches its sites: one call is one message to each named site and back, side by side.

    `rest` is called with the tensors of every answer as it arrives, and gives those that are kept in their place.
    `heard` is told every answer, before the last has come where sites answer at different times; any thread may.
    """

    rest: Rest
    heard: Heard

    @property
    def sites(self) -> list[str]:
        """The sites that are connected now."""
        ...

    def __call__(self, task: str, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | SiteFailure]:
        """Send each site its message, wait at most `timeout` seconds, return an answer or a failure for each."""
        ...
