"""Commands on data: make it, bring it in, check it."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedsuper.cli.command import Command
from fedsuper.cli.options import add_out
from fedsuper.display import counted


def _synth_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", choices=["retina", "prostate"], required=True)
    add_out(parser, "ROOT", "the data root to make; must be absent or empty")
    parser.add_argument("--sites", type=int, default=6, metavar="N", help="hospitals (default: 6)")
    parser.add_argument("--images", type=int, metavar="N", help="retina: photographs in all; prostate: volumes a site")
    parser.add_argument("--size", type=int, metavar="PX", help="pixels along a side")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="same seed, same bytes (default: 0)")
    parser.add_argument(
        "--outside",
        nargs="?",
        const="near",
        metavar="near|unlike",
        help="also write ROOT-outside, a hospital nobody trains on: near one site (the default) or unlike all",
    )
    parser.add_argument(
        "--difficulty",
        default="real",
        metavar="real|easy",
        help="real: varied anatomy, disease, doubtful borders (default); easy: clear pictures for quick tests",
    )
    parser.add_argument(
        "--shift",
        default="camera,anatomy,habit",
        metavar="PARTS",
        help="in what hospitals differ: camera, anatomy, habit joined with commas, or none (default: all three)",
    )


def _synth(options: argparse.Namespace) -> int:
    from fedsuper.data.synthetic.shift import parse_shift

    size = {} if options.size is None else {"size": options.size}
    if options.task == "retina":
        from fedsuper.data.synthetic.retina import write_retina as write
    else:
        from fedsuper.data.synthetic.prostate import write_prostate as write
    with counted("writing", "cases") as show:
        how = {"seed": options.seed, "outside": options.outside or False, "progress": show, **size}
        how |= {"difficulty": options.difficulty, "shift": parse_shift(options.shift)}
        write(options.out, options.sites, options.images, **how)
    print(f"{options.out}: {options.sites} sites")
    return 0


def _import_options(parser: argparse.ArgumentParser) -> None:
    from fedsuper.data.importers import SOURCES

    known = ", ".join(
        f"{name}:{{{','.join(importer.parts)}}}" if importer.parts else name for name, importer in SOURCES.items()
    )
    parser.add_argument("source", metavar="SOURCE", help=f"one of: {known}")
    parser.add_argument("raw", type=Path, metavar="RAW", help="the folder the set was unpacked to")
    add_out(parser, "ROOT/SITE", "the site's folder in a data root")
    parser.add_argument(
        "--map",
        dest="label_map",
        action="append",
        default=[],
        metavar="FROM=TO",
        help="folder, nnunet: what a mask value means, like 255=1",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--copy", dest="how", action="store_const", const="copy", default="copy", help="copy files (the default)"
    )
    how.add_argument(
        "--link", dest="how", action="store_const", const="link", help="link files that need no conversion"
    )


def _import(options: argparse.Namespace) -> int:
    from fedsuper.data.importers import import_dataset

    with counted("importing", "cases") as show:
        result = import_dataset(options.source, options.raw, options.out, options.how, show, options.label_map)
    print(result.summary())
    return 0


def _doctor_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("root", type=Path, metavar="ROOT", help="a data root")
    parser.add_argument("--json", action="store_true", help="findings as JSON on standard output")


def _doctor(options: argparse.Namespace) -> int:
    from fedsuper.data.doctor import examine

    return examine.main(options.root, options.json)


COMMANDS = [
    Command("synth", "write a synthetic federation", _synth_options, _synth),
    Command("import", "bring a public data set into the data layout", _import_options, _import, resume=""),
    Command("doctor", "check a data root; exit 1 if something must be fixed", _doctor_options, _doctor),
]
