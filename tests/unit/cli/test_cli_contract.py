"""The command line is what docs/reference/cli.md promises: read from the page, both ways."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fedsuper.cli import entry
from fedsuper.cli.parser import build_parser

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"
TOKEN = re.compile(r"\[[^\]]*\]|\S+")


@dataclass
class Usage:
    """What a usage line promises: option -> (what follows it, required), positionals in order."""

    options: dict[str, tuple[str, bool]] = field(default_factory=dict)
    positionals: list[str] = field(default_factory=list)


def read_usage(line: str) -> Usage:
    """`fedsuper NAME POSITIONAL... --option VALUE [--option VALUE] [--one|--other]`."""
    usage = Usage()
    tokens = TOKEN.findall(line)
    while tokens:
        token = tokens.pop(0)
        required = not token.startswith("[")
        first, _, rest = token.strip("[]").partition(" ")
        if not first.startswith("--"):
            usage.positionals.append(token)
        elif "|--" in first:
            usage.options |= {name: ("", False) for name in first.split("|")}
        else:
            value = rest or (tokens.pop(0) if required else "")
            usage.options[first] = (value, required)
    return usage


def usage_of(parser: argparse.ArgumentParser) -> Usage:
    """The same, from the parser itself."""
    usage = Usage()
    for action in parser._actions:
        value = "|".join(action.choices) if action.choices else str(action.metavar or "")
        if isinstance(action, argparse._HelpAction):
            continue
        if action.option_strings:
            repeated = " ..." if isinstance(action, argparse._AppendAction) else ""
            usage.options[action.option_strings[0]] = (value + repeated, action.required)
        else:
            shape = {None: "{}", "+": "{}...", "*": "[{} ...]"}[action.nargs]
            usage.positionals.append(shape.format(value))
    return usage


PROMISED = {
    line.split()[1]: line.split(maxsplit=2)[2] if len(line.split()) > 2 else ""
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("    fedsuper ")
}
(_WORDS,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
PARSERS = {name: parser.fill() for name, parser in _WORDS.choices.items()}


def test_every_command_is_documented_and_every_documented_command_exists() -> None:
    assert set(PROMISED) == set(PARSERS)


@pytest.mark.parametrize("name", PARSERS)
def test_options_choices_and_arguments_are_those_of_the_page(name: str) -> None:
    assert read_usage(PROMISED[name]) == usage_of(PARSERS[name])


@pytest.mark.parametrize("name", PARSERS)
def test_every_argument_says_what_it_is(name: str) -> None:
    for action in PARSERS[name]._actions:
        assert action.help or action.choices, f"{name} {action.dest}: no help"


def test_exit_codes_are_those_of_the_page() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE.read_text(encoding="utf-8"), re.M)}
    assert codes == {0, 1, entry.MISTAKE, entry.INTERRUPTED, entry.BROKEN_PIPE}


def test_help_lists_what_can_be_chosen() -> None:
    from fedsuper.bench import BENCHMARKS
    from fedsuper.data.importers import SOURCES
    from fedsuper.inference.modes import MODES
    from fedsuper.methods import METHODS

    for name, choices in {"import": SOURCES, "bench": BENCHMARKS, "compare": METHODS, "predict": MODES}.items():
        text = " ".join(PARSERS[name].format_help().split())
        assert not [choice for choice in choices if choice not in text], name


def test_predict_offers_no_mode_that_it_refuses() -> None:
    text = PARSERS["predict"].format_help()
    assert "average" not in text and "oracle" not in text


def test_the_reader_of_usage_lines_reads() -> None:
    """The instrument itself: a wrong page would be noticed."""
    usage = read_usage("A B... --to x|y [--n N] [--flag] [--copy|--link] [--set K=V ...] [NAME ...]")
    assert usage.positionals == ["A", "B...", "[NAME ...]"]
    assert usage.options == {
        "--to": ("x|y", True),
        "--n": ("N", False),
        "--flag": ("", False),
        "--copy": ("", False),
        "--link": ("", False),
        "--set": ("K=V ...", False),
    }
