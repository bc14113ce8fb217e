"""All commands, group by group. A new command is an entry in its group's list and a line of docs/reference/cli.md."""

from __future__ import annotations

from fedsuper import __version__
from fedsuper.cli import data, federated, inference, operations, outside, reporting, training
from fedsuper.cli.command import Command, CommandParser

GROUPS = (data, training, inference, outside, federated, operations, reporting)
COMMANDS: list[Command] = [command for group in GROUPS for command in group.COMMANDS]


def build_parser() -> CommandParser:
    """The parser of `fedsuper`."""
    parser = CommandParser(
        prog="fedsuper",
        description="Federated super models for medical image segmentation",
        epilog="`fedsuper COMMAND --help` lists a command's options and their choices.",
    )
    parser.add_argument("--version", action="version", version=f"fedsuper {__version__}")
    words = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=CommandParser)
    for command in COMMANDS:
        words.add_parser(command.name, help=command.help, description=command.help).command = command
    return parser
