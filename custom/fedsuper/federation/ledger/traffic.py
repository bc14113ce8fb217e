"""What travels between the server and each site, counted in bytes, and the budget that keeps a line from being flooded.

Down is from the server to a site, up from the site to the server. Counted is what the message holds: every tensor as it
is packed for the wire, and the JSON beside it; NVFlare's own framing (well under a percent) is not.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import Message, SiteFailure

MEGABYTE = 1_000_000


@dataclass
class Traffic:
    """Bytes so far, by site."""

    down: dict[str, int] = field(default_factory=dict)
    up: dict[str, int] = field(default_factory=dict)

    def sent(self, site: str, message: Message) -> None:
        """A message went to a site."""
        self.down[site] = self.down.get(site, 0) + size_of(message)

    def came(self, site: str, reply: Message | SiteFailure) -> None:
        """An answer came from a site; a failure's few words are not counted, nor what is no message at all."""
        if isinstance(reply, Message):
            with contextlib.suppress(Exception):  # a site may send anything; the door will say so
                self.up[site] = self.up.get(site, 0) + size_of(reply)

    def since(self, before: Traffic) -> Traffic:
        """What was added to `before`."""
        return Traffic(_difference(self.down, before.down), _difference(self.up, before.up))

    def copy(self) -> Traffic:
        """As it stands now."""
        return Traffic(dict(self.down), dict(self.up))

    def plus(self, other: Traffic) -> Traffic:
        """Both together."""
        return Traffic(_sum(self.down, other.down), _sum(self.up, other.up))

    def to_json(self) -> dict[str, dict[str, int]]:
        """By site: `{"site-1": {"down": 1200, "up": 800}}`."""
        sites = sorted(self.down.keys() | self.up.keys())
        return {site: {"down": self.down.get(site, 0), "up": self.up.get(site, 0)} for site in sites}

    @classmethod
    def from_json(cls, told: Mapping[str, Mapping[str, int]]) -> Traffic:
        """The inverse of `to_json`."""
        down, up = ({site: both[way] for site, both in told.items()} for way in ("down", "up"))
        return cls(down, up)

    def summary(self) -> str:
        """All sites together, in one phrase."""
        return f"{sum(self.down.values()) / MEGABYTE:.1f} MB down, {sum(self.up.values()) / MEGABYTE:.1f} MB up"

    def check(self, messages: Mapping[str, Message], budget: float | None) -> None:
        """Refuse to send what would bring a site's traffic, both directions together, over `budget` megabytes.

        An answer is as large as what was asked with, within a little: both are counted before anything is sent.
        """
        for site, message in messages.items():
            size = size_of(message)
            total = (self.down.get(site, 0) + self.up.get(site, 0) + 2 * size) / MEGABYTE
            if budget is not None and total > budget:
                raise FedSuperError(
                    f"{site}: what comes next would bring its traffic to {total:.1f} MB, and federation.traffic_budget "
                    f"is {budget:g} MB a site; raise it and go on with --resume"
                )


def size_of(message: Message) -> int:
    """The bytes of a message: as counted by what carried it, else of its tensors and its JSON."""
    if message.carried is not None:
        return message.carried
    tensors = (tensor for state in message.models.values() for tensor in state.values())
    return sum(int(tensor.nbytes) for tensor in tensors) + len(json.dumps(message.info, default=str))


def _difference(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    return {site: count - before.get(site, 0) for site, count in now.items()}


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {site: one.get(site, 0) + other.get(site, 0) for site in one.keys() | other.keys()}
