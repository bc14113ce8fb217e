"""Commands that tell: the report and the measurements."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedsuper.cli.command import Command, without_blas_threads
from fedsuper.cli.options import add_out


def _report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folders of run, compare or evaluate")
    add_out(parser, "report.html", "the page, one file")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="also save every figure as a PNG")


def _report(options: argparse.Namespace) -> int:
    from fedsuper.report.page import write_figures, write_report

    write_report(options.runs, options.out)
    print(options.out)
    for path in write_figures(options.runs, options.figures) if options.figures else []:
        print(path)
    return 0


def _bench_options(parser: argparse.ArgumentParser) -> None:
    from fedsuper.bench import BENCHMARKS

    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)} (default: all)")
    add_out(parser, "DIR", "NAME.json is written here for each")


def _bench(options: argparse.Namespace) -> int:
    without_blas_threads()
    from fedsuper.bench import run_benchmarks

    return run_benchmarks(options.names, options.out)


COMMANDS = [
    Command("report", "one HTML page from one or more runs", _report_options, _report, starting="making {out}"),
    Command("bench", "measure speed and memory; exit 1 where a promise is missed", _bench_options, _bench),
]
