"""A silent site costs a few deadlines, not one a task; its first answer makes it a site like any other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fedsuper.federation.ledger.attendance import LONGEST_SKIP, PATIENCE, Attendance
from fedsuper.federation.messages import Message, SiteFailure

LATE = SiteFailure("no answer within 5 s", absent=True, late=True)


def test_a_frozen_site_costs_few_of_many_tasks() -> None:
    attendance = Attendance(lambda text: None)
    waited = 0
    for _ in range(60):
        asked = attendance.asked(["a", "b"])
        assert "a" in asked
        waited += "b" in asked
        attendance.heard({site: LATE if site == "b" else Message() for site in asked})
    assert PATIENCE < waited < 9 and "b" in attendance.away


def test_an_answer_brings_it_back_at_once() -> None:
    notes: list[str] = []
    attendance = Attendance(notes.append)
    for _ in range(5):
        attendance.heard({"b": LATE})
    while "b" not in attendance.asked(["a", "b"]):
        assert "asked again" in attendance.skipped("b").reason
    attendance.heard({"b": Message()})
    assert notes == ["b: is back"] and attendance.away == {}
    attendance.heard({"b": LATE})
    assert "b" in attendance.asked(["a", "b"]), "one deadline is no habit"


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), max_size=80))
def test_somebody_is_always_asked_and_nobody_is_forgotten(answers: list[list[bool]]) -> None:
    attendance, last = Attendance(lambda text: None), dict.fromkeys("abc", 0)
    for number, row in enumerate(answers):
        asked = attendance.asked("abc")
        assert asked
        last |= dict.fromkeys(asked, number)
        replies = dict(zip("abc", row, strict=True))
        attendance.heard({site: Message() if replies[site] else LATE for site in asked})
        assert all(number - seen <= LONGEST_SKIP for seen in last.values())
