"""From arguments to an exit code: 0 done, 1 done with findings, 2 a mistake the user can fix, 130 interrupted."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from fedsuper.cli.command import Command
from fedsuper.cli.parser import build_parser
from fedsuper.display import close_all
from fedsuper.errors import FedSuperError, explain_missing_module, explain_os_error
from fedsuper.files import check_place

MISTAKE, INTERRUPTED, BROKEN_PIPE = 2, 130, 141


def main(arguments: list[str] | None = None) -> int:
    """Run a command; whatever a user can fix is one line on standard error, never a traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = build_parser().parse_args(given)
    command: Command = options.command
    out: Path | None = getattr(options, "out", None)
    try:
        if out is not None:
            check_place(out)
        if command.starting:
            print(f"{command.name}: {command.starting.format_map(vars(options))}", file=sys.stderr, flush=True)
        try:
            return command.run(options)
        finally:
            close_all()
    except FedSuperError as problem:
        return _refuse(str(problem))
    except KeyboardInterrupt:
        print(f"\nfedsuper: stopped{_how_to_go_on(command, given)}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away; what is left in the buffer has nowhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (OSError, ModuleNotFoundError) as problem:
        known = explain_os_error(problem, out) if isinstance(problem, OSError) else explain_missing_module(problem)
        if known is None:
            raise
        return _refuse(known)


def _refuse(line: str) -> int:
    print(f"fedsuper: {line}", file=sys.stderr)
    return MISTAKE


def _how_to_go_on(command: Command, given: list[str]) -> str:
    if command.resume is None:
        return ""
    added = [command.resume] if command.resume and command.resume not in given else []
    return f"; go on with: {shlex.join(['fedsuper', *given, *added])}"
