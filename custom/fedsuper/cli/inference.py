"""Commands that use a super model: segment, score, hand over."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedsuper.cli.command import Command
from fedsuper.cli.options import add_data, add_mode, add_out, add_prediction, add_super_model, seconds
from fedsuper.inference.modes import evaluate_modes, predict_modes


def _predict_options(parser: argparse.ArgumentParser) -> None:
    add_super_model(parser)
    parser.add_argument("inputs", type=Path, nargs="+", metavar="INPUT", help="images, folders of images, site folders")
    add_out(parser, "DIR", "masks, routing.csv, preview.jpg and predict.json are written here")
    add_mode(parser, predict_modes())
    parser.add_argument(
        "--vote", choices=["case", "slice"], default="case", help="one decision a patient (default), or one a slice"
    )
    parser.add_argument("--to", choices=["png", "nifti", "dicom-seg"], help="the masks' format (default: as the image)")
    parser.add_argument("--probabilities", action="store_true", help="also write every region's probabilities (.npz)")
    parser.add_argument("--abstain", action="store_true", help="write no mask where a person should look")
    parser.add_argument(
        "--least-quality", type=float, metavar="D", help="a person should look where the estimated Dice is below D"
    )
    add_prediction(parser)
    parser.add_argument("--again", action="store_true", help="predict again what an earlier run has done")
    parser.add_argument(
        "--routing",
        type=Path,
        metavar="FILE",
        help="for --mode route: the hospital's tuned routing; used where it exists, else tuned and written",
    )


def _predict(options: argparse.Namespace) -> int:
    from fedsuper.inference.overrides import prediction_switches
    from fedsuper.inference.predict.predict_paths import Output, predict_paths

    asked = prediction_switches(options.tta, options.norm_statistics, options.least_quality)
    return predict_paths(
        options.supermodel,
        options.inputs,
        options.out,
        options.mode,
        options.gamma,
        options.vote,
        routing_file=options.routing,
        overrides=[*options.overrides, *asked],
        output=Output(options.to, options.probabilities, options.abstain),
        again=options.again,
    )


def _evaluate_options(parser: argparse.ArgumentParser) -> None:
    add_super_model(parser)
    add_data(parser)
    add_out(parser, "DIR", "metrics.json and per_image.csv are written here")
    parser.add_argument(
        "--split", default="test", choices=["train", "val", "test", "all"], help="the images to score (default: test)"
    )
    add_mode(parser, evaluate_modes())
    add_prediction(parser)


def _evaluate(options: argparse.Namespace) -> int:
    from fedsuper.inference.overrides import prediction_switches
    from fedsuper.studies.score import evaluate_command

    overrides = [*options.overrides, *prediction_switches(options.tta, options.norm_statistics)]
    print(
        evaluate_command(
            options.supermodel, options.data, options.out, options.split, options.mode, options.gamma, overrides
        )
    )
    return 0


def _export_options(parser: argparse.ArgumentParser) -> None:
    add_super_model(parser)
    formats = ["monai-bundle", "onnx", "pt2", "card"]
    parser.add_argument("--to", choices=formats, required=True, help="the format; card: MODEL_CARD.md alone")
    add_out(parser, "DIR", "the models, export.json and MODEL_CARD.md are written here")
    parser.add_argument(
        "--name-sites", action="store_true", help="sites by name, where they agreed to it (default: by number)"
    )


def _export(options: argparse.Namespace) -> int:
    from fedsuper.inference.export.models import export

    for path in export(options.supermodel, options.to, options.out, options.name_sites):
        print(path)
    return 0


def _serve_options(parser: argparse.ArgumentParser) -> None:
    add_super_model(parser)
    parser.add_argument("--port", type=int, default=8000, metavar="P", help="0: any free one (default: 8000)")
    parser.add_argument("--host", metavar="ADDRESS", help="open it to others, by a token (default: this machine only)")
    parser.add_argument("--upload-mb", type=int, default=512, metavar="MB", help="the largest upload (default: 512)")


def _serve(options: argparse.Namespace) -> int:
    from fedsuper.inference.serve.serve_page import serve

    return serve(options.supermodel, options.port, options.host, options.upload_mb)


def _watch_options(parser: argparse.ArgumentParser) -> None:
    from fedsuper.data.images.masks import MASK_FORMATS

    add_super_model(parser)
    parser.add_argument("inbox", type=Path, metavar="INBOX", help="the folder images arrive in")
    parser.add_argument("outbox", type=Path, metavar="OUTBOX", help="the folder masks appear in")
    add_mode(parser, predict_modes())
    parser.add_argument("--to", choices=MASK_FORMATS, help="the masks' format (default: that of the image)")
    parser.add_argument("--poll", type=seconds, default=2.0, metavar="S", help="seconds between two looks (default: 2)")
    parser.add_argument("--settle", type=seconds, default=2.0, metavar="S", help="seconds without change (default: 2)")
    parser.add_argument("--once", action="store_true", help="end when the inbox is done")


def _watch(options: argparse.Namespace) -> int:
    from fedsuper.inference.watch.watch_folder import watch

    settings = {name: getattr(options, name) for name in ("once", "settle", "mode", "gamma", "to", "poll", "overrides")}
    return watch(options.supermodel, options.inbox, options.outbox, **settings)


COMMANDS = [
    Command("predict", "segment images with a super model", _predict_options, _predict, "", "loading {supermodel}"),
    Command(
        "evaluate", "score a super model on labeled data", _evaluate_options, _evaluate, starting="loading {supermodel}"
    ),
    Command("export", "hand the models to other tools", _export_options, _export, starting="loading {supermodel}"),
    Command("serve", "a page on this machine to try a super model", _serve_options, _serve),
    Command("watch", "segment what arrives in a folder, each image once", _watch_options, _watch, resume=""),
]
