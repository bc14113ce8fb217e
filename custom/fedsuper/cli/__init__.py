"""The command line: parsing and exit codes only. Every command is one function call elsewhere."""

from fedsuper.cli.entry import main
from fedsuper.cli.parser import build_parser

__all__ = ["build_parser", "main"]
