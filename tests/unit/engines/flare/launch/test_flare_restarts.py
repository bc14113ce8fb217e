"""A run that was broken off goes on by itself, as often as the study says and not once more."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path

import pytest

from fedsuper.engines.flare.launch import simulator
from fedsuper.engines.flare.launch.events import EventReader
from fedsuper.engines.flare.launch.restarts import BrokenOffError, restarted
from fedsuper.errors import FedSuperError
from fedsuper.federation.checkpoints import Resume
from fedsuper.federation.progress import Progress


class Attempts:
    """Attempts of which each completes some rounds and then, all but the last, is broken off."""

    def __init__(self, *rounds: int | None, last_holds: bool = True) -> None:
        self.rounds = list(rounds)
        self.last_holds = last_holds
        self.resumes: list[bool | Resume] = []
        self.shown = io.StringIO()
        self.reader = EventReader(Progress("fedsm", None, self.shown))

    def __call__(self, going: bool | Resume) -> str:
        self.resumes.append(going)
        number = self.rounds.pop(0)
        if number is not None:
            self.reader.show([json.dumps({"kind": "round", "number": number, "summary": ""})])
        if self.rounds or not self.last_holds:
            raise BrokenOffError("site-1: its process died", "see the log")
        return "the super model"


def test_each_attempt_goes_on_where_the_one_before_was_broken_off() -> None:
    attempts = Attempts(None, 2, 5, None)
    assert restarted(3, attempts.reader, False, attempts) == "the super model"
    assert attempts.resumes == [False, False, Resume(), Resume()]
    assert "site-1: its process died; starting again from the beginning (restarts left: 2)" in attempts.shown.getvalue()
    assert "starting again from the last complete round (restarts left: 0)" in attempts.shown.getvalue()


def test_a_round_is_undone_once_and_a_site_stays_away() -> None:
    attempts = Attempts(None, 4, 6)
    restarted(3, attempts.reader, Resume(3, ("site-2",)), attempts)
    assert attempts.resumes == [Resume(3, ("site-2",))] * 2 + [Resume(None, ("site-2",))]


@pytest.mark.parametrize("restarts", [0, 2])
def test_the_last_break_is_the_users_to_see(restarts: int) -> None:
    attempts = Attempts(*[1] * (restarts + 1), last_holds=False)
    with pytest.raises(FedSuperError, match="^site-1: its process died; see the log$"):
        restarted(restarts, attempts.reader, False, attempts)
    assert len(attempts.resumes) == restarts + 1


def test_a_problem_of_the_study_is_not_tried_again() -> None:
    reader = Attempts().reader

    def refuse(going: bool | Resume) -> None:
        tried.append(going)
        raise FedSuperError("site-1: its dataset.json describes another task")

    tried: list[bool | Resume] = []
    with pytest.raises(FedSuperError, match="another task"):
        restarted(3, reader, False, refuse)
    assert tried == [False]


@pytest.mark.parametrize(("word", "ended"), [("done", True), ("failed", True), ("note", False)])
def test_a_site_that_ends_with_the_work_did_not_die(word: str, ended: bool, tmp_path: Path,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's last word may be read after the log's line of its site's end."""
    monkeypatch.setattr(simulator, "LAST_WORD", 60 if ended else 0.3)
    monkeypatch.setattr(simulator, "POLL", 0.01)
    events = tmp_path / "events.jsonl"
    late = threading.Timer(0.05, events.write_text, [json.dumps({"kind": word, "text": "so"}) + "\n"])
    late.start()
    assert simulator._has_ended(Attempts().reader, events) is ended
    late.join()
