"""A round's answers, read as they arrive: whoever answers early is judged while the others still train.

What an answer is worth by itself (its form, its numbers, how far its models moved) needs no other answer. It is found
once and kept until the round is closed, where who stands out among all is decided. An answer that cannot be read is
left for then: only there is it refused, in the order of sites and by name.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fedsuper.core.state import Models
from fedsuper.federation.door.admission import check_plain
from fedsuper.federation.door.replies import Known, TrainReply
from fedsuper.federation.door.tensors import check_models
from fedsuper.federation.message_schema import opened
from fedsuper.federation.messages import Message, SiteFailure
from fedsuper.federation.precision.upward import restored
from fedsuper.methods.protocol.upload import Upload


@dataclass(frozen=True)
class Read:
    """An answer that fits: its models, what it told, and how far each model moved."""

    models: Models
    told: TrainReply
    lengths: dict[str, float]


class Reading:
    """Of one round: `sent` is what every site holds, `declared` what it may send, `known` what the server knows."""

    def __init__(self, sent: Mapping[str, Models], declared: Mapping[str, Mapping[str, Upload]], wire: str,
                 known: Callable[[str], Known]) -> None:
        self.sent = sent
        self.declared = declared
        self.wire = wire
        self.known = known
        self._early: dict[str, tuple[Message, Read]] = {}
        self._context = contextvars.copy_context()  # where models rest is known here, and not in the carrier's threads

    def look(self, site: str, reply: Message | SiteFailure) -> None:
        """Read an answer that has just come, from whatever thread brings it."""
        if not isinstance(reply, Message):
            return
        try:
            check_plain(reply.info)
            self._early[site] = reply, self._context.run(self._read, site, reply)
        except Exception:  # it is read again, and refused, when its turn comes
            self._early.pop(site, None)

    def read(self, site: str, reply: Message) -> Read:
        """What was found of this very answer, or is found now."""
        early, found = self._early.pop(site, (None, None))
        return found if found is not None and early is reply else self._read(site, reply)

    def _read(self, site: str, reply: Message) -> Read:
        lengths: dict[str, float] = {}
        whole = restored(reply.models, self.declared[site], self.sent[site], self.wire, site)
        models = check_models(whole, self.declared[site], site, lengths)
        return Read(models, opened(site, reply, TrainReply, self.known(site)), lengths)
