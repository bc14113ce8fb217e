"""What each task asks of a site: the shape of every message's plain part, checked where it is opened.

What a site answers is in `door.replies`.
"""

from __future__ import annotations

import reprlib
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError

from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import Message

Count = Annotated[StrictInt, Field(ge=0)]
Json = dict[str, Any]


class Plain(BaseModel):
    """The plain part of a message; keys that are not known are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def message(self, models: Any = None) -> Message:
        """As it travels."""
        return Message(models or {}, self.model_dump())


class DescribeRequest(Plain):
    """`resume`: go on with the split that was frozen when the run began."""

    study: Json
    resume: bool


class RoundRequest(Plain):
    """A round, and every task after the last one: where the study stands and which of its rounds the site's counted."""

    study: Json
    label: Count
    sites: list[str]
    round: Count
    phase: str
    accepted: Count
    task: Json


class HandoverRequest(RoundRequest):
    """The super model's manifest goes along with its models, and once more when it is complete."""

    manifest: Json


class CalibrateRequest(HandoverRequest):
    """What the server has collected or chosen so far, and what it wants to know next."""

    wanted: str


R = TypeVar("R", bound=Plain)


def opened(who: str, message: Message, kind: type[R], known: object = None) -> R:
    """The plain part of a message, as `kind` says it must be; ranges that depend on the study are compared to `known`.
    """
    try:
        return kind.model_validate(message.info, context=known)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the answer"
        text = first["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
        raise FedSuperError(f"{who}: its answer does not fit: {where}: {text} (got {reprlib.repr(first['input'])}); "
                            "install the same FedSuper everywhere") from None
