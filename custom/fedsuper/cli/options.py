"""Options that several commands share."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path


def add_set(parser: argparse.ArgumentParser) -> None:
    """`--set key=value`, as often as needed."""
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a key of the study, for example optimizer.lr=0.002; may be repeated",
    )


def add_super_model(parser: argparse.ArgumentParser) -> None:
    """The folder of a super model, first among the arguments."""
    parser.add_argument("supermodel", type=Path, metavar="SUPERMODEL", help="a folder with supermodel.json")


def add_data(parser: argparse.ArgumentParser) -> None:
    """`--data ROOT`."""
    help = "a data root: dataset.json and a folder per site"
    parser.add_argument("--data", type=Path, required=True, metavar="ROOT", help=help)


def add_out(parser: argparse.ArgumentParser, metavar: str, help: str) -> None:
    """`--out`, where everything a command makes is written."""
    parser.add_argument("--out", type=Path, required=True, metavar=metavar, help=help)


def count(text: str) -> int:
    """A number of things as an option takes it: 1 or more."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, got {text}")
    return value


def seconds(text: str) -> float:
    """A number of seconds as an option takes it: finite, 0 or more."""
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise argparse.ArgumentTypeError(f"must be 0 seconds or more, got {text}")
    return value


ENGINES = {
    "sim": "NVFlare's simulator (default)",
    "local": "in this process, or with --threads N in N processes beside it",
    "poc": "NVFlare's proof of concept on this machine",
    "prod": "a provisioned federation",
}


def add_engine(parser: argparse.ArgumentParser, engines: Sequence[str]) -> None:
    """`--engine` and what goes with it: where the sites are and how many work at a time."""
    where = "; ".join(f"{name}: {ENGINES[name]}" for name in engines)
    parser.add_argument("--engine", choices=engines, default="sim", help=where)
    parser.add_argument("--threads", type=count, metavar="N", help="sites at work at the same time (default: all)")
    parser.add_argument("--gpus", metavar="0,1", help="sites are dealt out to these in turn")
    parser.add_argument("--kit", type=Path, metavar="DIR", help="the admin's start-up kit, for --engine prod")


def add_prediction(parser: argparse.ArgumentParser) -> None:
    """Switches that hold in every mode."""
    parser.add_argument("--tta", action="store_true", help="the mean over the image and the flips that training showed")
    parser.add_argument(
        "--norm-statistics",
        choices=["running", "image", "batch"],
        help="mean and variance of norm layers: from training, of each slice, or of an image's slices together",
    )


def add_mode(parser: argparse.ArgumentParser, known: Sequence[str]) -> None:
    """`--mode` and what goes with it; `known` are the modes that the command takes."""
    parser.add_argument("--mode", metavar="MODE", help=f"one of: {', '.join(known)} (default: the method's own)")
    parser.add_argument(
        "--gamma", type=float, metavar="G", help="the selector's threshold, 0 to 1 (default: the super model's)"
    )
    add_set(parser)
