"""Commands for hospitals that did not train: adapt with a few labels, join or leave the selector."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedsuper.cli.command import Command
from fedsuper.cli.options import add_super_model, count
from fedsuper.errors import FedSuperError


def _adapt_options(parser: argparse.ArgumentParser) -> None:
    add_super_model(parser)
    help = "a site folder: images/, and labels/ for a few of them"
    parser.add_argument("--data", type=Path, required=True, metavar="ROOT/SITE", help=help)
    parser.add_argument("--out", type=Path, metavar="SUPERMODEL2", help="the adapted super model is written here")
    parser.add_argument("--suggest", type=count, metavar="N", help="name the N images most worth labeling, and stop")
    parser.add_argument("--steps", type=count, default=60, metavar="N", help="so many steps, or fewer (default: 60)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of batches and augmentation (default: 0)")


def _adapt(options: argparse.Namespace) -> int:
    from fedsuper.studies.adaptation.adapt import adapt_site, suggest_images

    if options.suggest is not None:
        print(suggest_images(options.supermodel, options.data, options.suggest))
        return 0
    if options.out is None:
        raise FedSuperError("adapt: --out SUPERMODEL2 is missing (or --suggest N to choose what to label)")
    print(adapt_site(options.supermodel, options.data, options.out, options.steps, options.seed))
    return 0


def _selector_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["add", "remove"], help="a site joins, or leaves")
    add_super_model(parser)
    parser.add_argument("--data", type=Path, metavar="ROOT/SITE", help="add: the folder of the site that joins")
    parser.add_argument("--split", choices=["all", "train"], default="all", help="add: of which images (default: all)")
    parser.add_argument("--site", metavar="NAME", help="remove: the site that leaves")
    parser.add_argument("--out", type=Path, required=True, metavar="SUPERMODEL2", help="the result is written here")


def _selector(options: argparse.Namespace) -> int:
    from fedsuper.studies.adaptation.selector import add_site, remove_site

    if options.action == "add":
        if options.data is None:
            raise FedSuperError("selector add: --data ROOT/SITE is missing")
        print(add_site(options.supermodel, options.data, options.out, options.split))
    else:
        if options.site is None:
            raise FedSuperError("selector remove: --site NAME is missing")
        print(remove_site(options.supermodel, options.site, options.out))
    return 0


COMMANDS = [
    Command("adapt", "a model for an outside hospital from a few labels", _adapt_options, _adapt,
            starting="loading {supermodel}"),
    Command("selector", "a site joins or leaves a super model without training", _selector_options, _selector,
            starting="loading {supermodel}"),
]
