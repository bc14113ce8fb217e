"""What a terminal sees and what a log file sees."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from fedsuper.display import Display, close_all, closing_panel, counted
from fedsuper.federation.progress import Progress

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_log_gets_a_line_every_tenth_of_a_long_work() -> None:
    log = io.StringIO()
    with counted("reading", "images", log) as show:
        for done in range(1, 41):
            show(done, 40)
    assert log.getvalue().splitlines() == [f"reading: {done}/40 images" for done in range(4, 41, 4)]


def test_a_log_gets_nothing_of_a_short_work() -> None:
    log = io.StringIO()
    with counted("reading", "images", log) as show:
        show(1, 2)
        show(2, 2)
    assert log.getvalue() == ""


def test_a_terminal_gets_a_bar_that_gives_the_cursor_back() -> None:
    terminal = Terminal()
    with counted("reading", "images", terminal) as show:
        show(8, 8)
    assert "reading" in terminal.getvalue() and "8/8" in terminal.getvalue()
    assert terminal.getvalue().count(HIDE_CURSOR) == terminal.getvalue().count(SHOW_CURSOR) == 1


def test_an_interruption_gives_the_cursor_back() -> None:
    terminal = Terminal()
    with pytest.raises(KeyboardInterrupt), counted("reading", "images", terminal) as show:
        show(1, 8)
        raise KeyboardInterrupt
    assert terminal.getvalue().count(HIDE_CURSOR) == terminal.getvalue().count(SHOW_CURSOR) == 1


def test_notes_stay_above_the_bar_and_are_not_markup() -> None:
    terminal = Terminal()
    with Progress("fedsm", 2, terminal) as progress:
        progress.note("site [bold]a[/bold]: left out")
        progress.round(1, "1/2 sites")
    assert "fedsm: site [bold]a[/bold]: left out" in terminal.getvalue()
    assert "1/2 sites" in terminal.getvalue() and "starting" in terminal.getvalue()


def test_a_log_never_imports_rich() -> None:
    code = """
import sys
from fedsuper.display import closing_panel, counted
with counted("a", "b") as show:
    show(20, 20)
closing_panel("done", {"super model": "here"})
assert "rich" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "a: 20/20 b\nsuper model: here\n"


def test_the_panel_says_what_came_out() -> None:
    terminal = Terminal()
    closing_panel("done", {"super model": "run/supermodel", "next": "fedsuper predict [x]"}, terminal)
    assert "super model: run/supermodel" in terminal.getvalue() and "fedsuper predict [x]" in terminal.getvalue()


def test_what_was_left_open_is_closed_with_the_command() -> None:
    terminal = Terminal()
    Display("a", terminal).bar(1, 2)
    assert SHOW_CURSOR not in terminal.getvalue()
    close_all()
    close_all()
    assert terminal.getvalue().count(SHOW_CURSOR) == 1


def test_closing_twice_is_closing_once() -> None:
    display = Display("a", Terminal())
    display.bar(1, 2)
    display.close()
    display.close()
