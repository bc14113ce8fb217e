"""Every answer of every site passes here, whatever job it belongs to: it is let in whole, or refused by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fedsuper.data.problems import one_line
from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import Message, SiteFailure

# An honest answer has a few thousand values at most: a curve, a table, a fingerprint.
MOST_VALUES, DEEPEST, LONGEST_TEXT, LARGEST_WHOLE = 50_000, 12, 1000, 2**53
LONGEST_REASON = 400

T = TypeVar("T")


def admit(
    replies: Mapping[str, Message | SiteFailure],
    read: Callable[[str, Message], T],
    refuse: Callable[[str, str], None],
) -> dict[str, T]:
    """What `read` makes of each answer that fits; `refuse` hears of every other one, with the reason.

    A site may send anything. Whatever goes wrong while its answer is read is the answer's fault, so nothing passes.
    """
    admitted: dict[str, T] = {}
    for site, reply in replies.items():
        try:
            if isinstance(reply, SiteFailure):
                raise FedSuperError(reply.reason if isinstance(reply.reason, str) else "a reason that is no text")
            check_plain(reply.info)
            admitted[site] = read(site, reply)
        except FedSuperError as problem:
            refuse(site, reason(str(problem).removeprefix(f"{site}: ")))
        except Exception as error:
            refuse(site, f"its answer cannot be read ({type(error).__name__}); install the same FedSuper everywhere")
    return admitted


def reason(text: str) -> str:
    """Words of a site, fit to be shown: one printable line of bounded length."""
    return one_line(text[: 4 * LONGEST_REASON])[:LONGEST_REASON]


def check_plain(info: Any) -> None:
    """Refuse what is no small JSON object of finite numbers and printable text, before anything is made of it."""
    if not isinstance(info, dict):
        raise FedSuperError(f"its answer is a {type(info).__name__}, expected an object")
    left: list[tuple[Any, int]] = [(info, 0)]
    seen = 0
    while left:
        value, depth = left.pop()
        seen += 1
        if seen > MOST_VALUES or depth > DEEPEST:
            raise FedSuperError(f"its answer holds more than {MOST_VALUES} values or {DEEPEST} levels")
        if isinstance(value, dict):
            if len(value) > MOST_VALUES:
                raise FedSuperError(f"its answer holds more than {MOST_VALUES} values")
            left += [(key if isinstance(key, str) else object(), depth + 1) for key in value]
            left += [(entry, depth + 1) for entry in value.values()]
        elif isinstance(value, (list, tuple)):
            if len(value) > MOST_VALUES:
                raise FedSuperError(f"its answer holds more than {MOST_VALUES} values")
            left += [(entry, depth + 1) for entry in value]
        else:
            _check_value(value)


def _check_value(value: Any) -> None:
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT or not value.isprintable():
            raise FedSuperError(f"its answer holds text that is not printable or longer than {LONGEST_TEXT} letters")
    elif type(value) is int:
        if abs(value) > LARGEST_WHOLE:
            raise FedSuperError("its answer holds a whole number beyond 2^53")
    elif type(value) is float:
        if not math.isfinite(value):
            raise FedSuperError("its answer holds a number that is NaN or infinite")
    elif value is not None and not isinstance(value, bool):
        raise FedSuperError(f"its answer holds a {type(value).__name__}, which is no plain value")
