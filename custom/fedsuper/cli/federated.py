"""Commands that put a super model to use at the sites of a federation."""

from __future__ import annotations

import argparse

from fedsuper.cli.command import Command
from fedsuper.cli.options import add_data, add_engine, add_out, add_super_model, seconds


def _infer_options(parser: argparse.ArgumentParser) -> None:
    from fedsuper.inference.modes import MODES, SITE_PREFIX

    add_super_model(parser)
    add_data(parser)
    add_out(parser, "RUN", "sites.json and, on one machine, the masks of site S in RUN/sites/S/outbox")
    add_engine(parser, ["sim", "poc", "prod"])
    known = ", ".join([*MODES, f"{SITE_PREFIX}NAME"])
    parser.add_argument("--mode", metavar="MODE", help=f"one of: {known} (default: the method's own)")
    parser.add_argument("--gamma", type=float, metavar="G", help="the selector's threshold, 0 to 1")
    parser.add_argument("--vote", choices=["case", "slice"], default="case", help="decide by volume or slice")
    parser.add_argument(
        "--keep-gates", action="store_true", help="route: tune once per hospital and keep the gates there"
    )
    parser.add_argument(
        "--matrix", action="store_true", help="score every model on every site's test images instead of predicting"
    )
    parser.add_argument("--timeout", type=seconds, default=3600, metavar="SECONDS", help="each site's deadline (3600)")


def _infer(options: argparse.Namespace) -> int:
    from fedsuper.studies.infer import infer, table

    told = infer(
        options.supermodel,
        options.data,
        options.out,
        options.engine,
        options.mode,
        options.gamma,
        options.vote,
        options.keep_gates,
        options.matrix,
        options.timeout,
        options.threads,
        options.gpus,
        options.kit,
    )
    print(table(told))
    return 1 if told["failed"] else 0


COMMANDS = [
    Command("infer", "use a super model at every site of a federation", _infer_options, _infer, resume=""),
]
