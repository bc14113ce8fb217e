"""One line per mistake, exit codes, and how to go on after an interruption."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedsuper.cli import main, parser
from fedsuper.cli.command import Command


def test_methods_lists_every_method(capsys) -> None:
    from fedsuper.methods import METHODS

    assert main(["methods"]) == 0
    told = capsys.readouterr().out
    assert all(re.search(rf"^{name}$", told, re.M) for name in METHODS)


@pytest.mark.parametrize(("command", "option", "text"), [
    *[(["watch", "m", "in", "out"], name, text) for name in ("--poll", "--settle") for text in ("-1", "nan", "inf")],
    (["infer", "m", "--data", "d", "--out", "o"], "--timeout", "nan"),
    (["infer", "m", "--data", "d", "--out", "o"], "--threads", "0"),
    (["run", "s.yaml", "--data", "d", "--out", "o"], "--threads", "0"),
    (["compare", "--data", "d"], "--threads", "-1"),
    (["adapt", "m", "--data", "d"], "--steps", "0"),
    (["adapt", "m", "--data", "d"], "--suggest", "-3"),
])
def test_numbers_that_make_no_sense_are_told_with_their_option(command, option: str, text: str, capsys) -> None:
    with pytest.raises(SystemExit):
        main([*command, option, text])
    assert f"argument {option}: must be" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "--data", "nowhere", "--out", "o", "--methods", "fedavg,magic"],
        ["compare", "--data", "nowhere", "--out", "o", "--seeds", "one"],
        ["compare", "--data", "nowhere", "--out", "o"],
        ["run", "absent.yaml", "--data", "nowhere", "--out", "o"],
        ["predict", "nowhere", "x.png", "--out", "o"],
        ["evaluate", "nowhere", "--data", "nowhere", "--out", "o"],
        ["report", "nowhere", "--out", "o.html"],
        ["doctor", "nowhere"],
        ["import", "no-such-set", "nowhere", "--out", "o/site"],
        ["synth", "--task", "retina", "--out", "o", "--sites", "0"],
        ["export", "nowhere", "--to", "pt2", "--out", "o"],
        ["job", "absent.yaml", "--out", "o"],
        ["bench", "no-such-bench", "--out", "o"],
        ["serve", "nowhere", "--port", "99999"],
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(arguments: list[str], tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) in (1, 2)
    captured = capsys.readouterr()
    lines = (captured.err + captured.out).strip().splitlines()
    assert lines and "Traceback" not in captured.err
    assert lines[-1].startswith("fedsuper: ") or arguments[0] == "doctor"
    assert not list(tmp_path.iterdir()), "nothing half-written"


@pytest.mark.parametrize(("resume", "told"), [
    (None, "fedsuper: stopped"),
    ("", "fedsuper: stopped; go on with: fedsuper doctor 'a root'"),
    ("--resume", "fedsuper: stopped; go on with: fedsuper doctor 'a root' --resume"),
])
def test_an_interruption_says_how_to_go_on(resume: str | None, told: str, monkeypatch, capsys) -> None:
    def interrupted(options) -> int:
        raise KeyboardInterrupt

    doctor = next(command for command in parser.COMMANDS if command.name == "doctor")
    monkeypatch.setattr(parser, "COMMANDS", [Command("doctor", "", doctor.options, interrupted, resume)])
    assert main(["doctor", "a root"]) == 130
    assert capsys.readouterr().err.strip() == told


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    command = [sys.executable, "-m", "fedsuper.cli", "methods"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
