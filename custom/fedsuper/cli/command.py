"""What a command is, and the parser that learns a command's options only when the command is called."""

from __future__ import annotations

import argparse
import os
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn


@dataclass(frozen=True)
class Command:
    """A word of the command line.

    `options` adds the arguments. It is called only for the command in use, so it may import what lists the choices;
    `run` imports the work itself. `resume` is what to add to the same call after an interruption ("" where the same
    call goes on by itself, None where there is nothing to go on from). `starting` is shown at once, before anything
    slow is imported, with the options' values in place of their names in braces.
    """

    name: str
    help: str
    options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    resume: str | None = None
    starting: str = ""


def without_blas_threads() -> None:
    """Before numpy is imported: let it start no thread a core, which a process that wants to be forked cannot have.

    Nothing here multiplies matrices that are large enough to need them.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


class _WholeNames(argparse.HelpFormatter):
    """Help whose lines do not break inside `per-fedavg` or `nci-isbi`."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


class CommandParser(argparse.ArgumentParser):
    """A parser that asks its command for the options when it is first needed: `fedsuper --help` stays instant."""

    command: Command | None = None
    filled = False

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=_WholeNames, **settings)

    def fill(self) -> CommandParser:
        """Add the command's own options, once."""
        if self.command is not None and not self.filled:
            self.filled = True
            self.command.options(self)
            self.set_defaults(command=self.command)
        return self

    def parse_known_args(self, *args: Any, **named: Any) -> Any:
        """As in argparse, with the options in place."""
        return argparse.ArgumentParser.parse_known_args(self.fill(), *args, **named)

    def error(self, message: str) -> NoReturn:
        """One line, as for every other mistake, and where to read more."""
        self.exit(2, f"fedsuper: {message}; see {self.prog} --help\n")
