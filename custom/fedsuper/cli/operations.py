"""Commands for whoever keeps a federation running."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from fedsuper.cli.command import Command
from fedsuper.errors import FedSuperError


def _status_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, nargs="*", metavar="RUN", help="folders of runs, or folders that hold some")
    parser.add_argument("--kit", type=Path, metavar="DIR", help="an admin's start-up kit: ask a provisioned server")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--health", action="store_true", help="one line a run, for monitoring; exit 1 if one is amiss")
    shape.add_argument("--json", action="store_true", help="the same as JSON")


def _status(options: argparse.Namespace) -> int:
    from fedsuper.evaluation.run_files.status import runs_in, status_of

    if not options.runs and options.kit is None:
        raise FedSuperError("status: needs the folder of a run, or --kit to ask a provisioned server")
    found = [status_of(run) for run in runs_in(options.runs)]
    server = {}
    if options.kit is not None:
        from fedsuper.engines.flare.launch.jobs import jobs_at, text_of

        server = jobs_at(options.kit)
    if options.json:
        print(json.dumps({"runs": [run.to_json() for run in found], **server}, indent=2))
    else:
        for run in found:
            print(run.line() if options.health else run.text())
        if server:
            print(text_of(server))
    return 1 if options.health and not all(run.healthy for run in found) else 0


COMMANDS = [Command("status", "how far runs are, who took part, what travelled", _status_options, _status)]
