"""The command line. Parsing and exit codes only: every command is one function call elsewhere."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from fedsuper import __version__
from fedsuper.errors import FedSuperError

Command = Callable[[argparse.Namespace], int]


def main(arguments: list[str] | None = None) -> int:
    """Run a command; a user's mistake is one line and exit code 2, an interruption is 130."""
    options = build_parser().parse_args(arguments)
    try:
        return options.command(options)
    except FedSuperError as problem:
        print(f"fedsuper: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("fedsuper: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 141


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = argparse.ArgumentParser(
        prog="fedsuper", description="Federated super models for medical image segmentation"
    )
    parser.add_argument("--version", action="version", version=f"fedsuper {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: Command, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=function)
        return sub

    sub = command("synth", _synth, "write a synthetic federation")
    sub.add_argument("--task", choices=["retina", "prostate"], required=True)
    sub.add_argument("--out", type=Path, required=True, metavar="ROOT")
    sub.add_argument("--sites", type=int, default=6)
    sub.add_argument("--images", type=int, help="images (retina: in all; prostate: volumes a site)")
    sub.add_argument("--size", type=int, metavar="PX")
    sub.add_argument("--seed", type=int, default=0)
    sub.add_argument("--outside", action="store_true", help="also write ROOT-outside, a hospital nobody trains on")

    sub = command("import", _import, "bring a public data set into the data layout")
    sub.add_argument("source")
    sub.add_argument("raw", type=Path)
    sub.add_argument("--out", type=Path, required=True, metavar="ROOT/SITE")
    how = sub.add_mutually_exclusive_group()
    how.add_argument("--copy", dest="how", action="store_const", const="copy", default="copy")
    how.add_argument("--link", dest="how", action="store_const", const="link")

    sub = command("doctor", _doctor, "check a data root; exit 1 if something must be mended")
    sub.add_argument("root", type=Path)
    sub.add_argument("--json", action="store_true")

    sub = command("run", _run, "train one study")
    sub.add_argument("study", type=Path, metavar="STUDY.yaml")
    sub.add_argument("--data", type=Path, required=True, metavar="ROOT")
    sub.add_argument("--out", type=Path, required=True, metavar="RUN")
    sub.add_argument("--engine", choices=["sim", "local", "poc", "prod"], default="sim")
    sub.add_argument("--threads", type=int, help="sites at work at the same time (default: all)")
    sub.add_argument("--gpus", help="for example 0,1: sites are dealt out to them in turn")
    sub.add_argument("--kit", type=Path, help="the admin's start-up kit, for --engine prod")
    sub.add_argument("--resume", action="store_true", help="go on from the last complete round")
    _add_set(sub)

    sub = command("compare", _compare, "train several methods and print one table")
    sub.add_argument("--data", type=Path, required=True, metavar="ROOT")
    sub.add_argument(
        "--methods",
        help="comma-separated, or all (default: centralized,local,fedavg,fedsm); "
        "a row may change keys: fedsm+personal=ft, fedbn+model.norm=batch",
    )
    sub.add_argument("--out", type=Path, required=True, metavar="RUN")
    sub.add_argument("--config", type=Path, metavar="STUDY.yaml")
    sub.add_argument("--seeds", default="0", help="comma-separated")
    sub.add_argument("--leave-out", metavar="SITE|all", help="train without this site and score on it")
    sub.add_argument("--engine", choices=["local", "sim"], default="local")
    sub.add_argument("--threads", type=int)
    _add_set(sub)

    sub = command("predict", _predict, "segment images with a super model")
    sub.add_argument("supermodel", type=Path)
    sub.add_argument("inputs", type=Path, nargs="+", metavar="INPUT")
    sub.add_argument("--out", type=Path, required=True, metavar="DIR")
    _add_mode(sub)
    sub.add_argument("--vote", choices=["case", "slice"], default="case", help="one decision a volume, or one a slice")
    sub.add_argument(
        "--routing",
        type=Path,
        metavar="FILE",
        help="for --mode route: the hospital's tuned routing; used where it exists, else tuned and written",
    )

    sub = command("evaluate", _evaluate, "score a super model on labelled data")
    sub.add_argument("supermodel", type=Path)
    sub.add_argument("--data", type=Path, required=True, metavar="ROOT")
    sub.add_argument("--out", type=Path, required=True, metavar="DIR")
    sub.add_argument("--split", default="test", choices=["train", "val", "test", "all"])
    _add_mode(sub)

    sub = command("report", _report, "one HTML page from one or more runs")
    sub.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    sub.add_argument("--out", type=Path, required=True, metavar="report.html")
    sub.add_argument("--figures", type=Path, metavar="DIR", help="also save every figure as a PNG")

    sub = command("export", _export, "hand the models to other tools")
    sub.add_argument("supermodel", type=Path)
    sub.add_argument("--to", choices=["monai-bundle", "onnx", "pt2"], required=True)
    sub.add_argument("--out", type=Path, required=True, metavar="DIR")

    sub = command("job", _job, "write a submittable NVFlare job folder")
    sub.add_argument("study", type=Path, metavar="STUDY.yaml")
    sub.add_argument("--out", type=Path, required=True, metavar="DIR")
    _add_set(sub)

    sub = command("bench", _bench, "measure speed and memory")
    sub.add_argument("names", nargs="*", metavar="NAME")
    sub.add_argument("--out", type=Path, required=True, metavar="DIR")

    command("methods", _methods, "list every method: what travels, what sites keep, its paper and knobs")
    return parser


def _add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")


def _add_mode(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mode", help="select, route, global, ensemble, average, site:NAME, ... (default: the method's own)"
    )
    parser.add_argument("--gamma", type=float, help="the selector's threshold (default: the super model's)")
    _add_set(parser)


def _synth(options: argparse.Namespace) -> int:
    size = {} if options.size is None else {"size": options.size}
    if options.task == "retina":
        from fedsuper.data.synthetic.retina import write_retina as write
    else:
        from fedsuper.data.synthetic.prostate import write_prostate as write
    write(options.out, options.sites, options.images, seed=options.seed, outside=options.outside, **size)
    print(f"{options.out}: {options.sites} sites")
    return 0


def _import(options: argparse.Namespace) -> int:
    from fedsuper.data.importers import import_dataset

    print(import_dataset(options.source, options.raw, options.out, options.how).summary())
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from fedsuper.data import doctor

    return doctor.main(options.root, options.json)


def _run(options: argparse.Namespace) -> int:
    from fedsuper.config import read_study
    from fedsuper.engines.run import run_study
    from fedsuper.engines.scores import score_run

    study = read_study(options.study, options.overrides)
    run_study(
        study, options.data, options.out, options.engine, options.threads, options.gpus, options.resume, options.kit
    )
    print(score_run(options.out, options.data if options.engine != "prod" else None))
    return 0


def _compare(options: argparse.Namespace) -> int:
    from fedsuper.config import read_study
    from fedsuper.engines.compare import Comparison, compare_and_tell, rows_named
    from fedsuper.engines.leave_out import leave_out

    study = read_study(options.config, options.overrides)
    rows, seeds = rows_named(options.methods), _numbers(options.seeds)
    what = Comparison(study, options.data, rows, seeds, options.out, options.engine, options.threads)
    print(leave_out(what, options.leave_out) if options.leave_out else compare_and_tell(what))
    return 0


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise FedSuperError(f"--seeds {text}: expected whole numbers, for example 0,1,2") from None


def _predict(options: argparse.Namespace) -> int:
    from fedsuper.inference.predict import predict_paths

    return predict_paths(
        options.supermodel,
        options.inputs,
        options.out,
        options.mode,
        options.gamma,
        options.vote,
        routing_file=options.routing,
        overrides=options.overrides,
    )


def _evaluate(options: argparse.Namespace) -> int:
    from fedsuper.engines.scores import evaluate_command

    print(
        evaluate_command(
            options.supermodel, options.data, options.out, options.split, options.mode, options.gamma, options.overrides
        )
    )
    return 0


def _report(options: argparse.Namespace) -> int:
    from fedsuper.report.html import write_figures, write_report

    write_report(options.runs, options.out)
    print(options.out)
    for path in write_figures(options.runs, options.figures) if options.figures else []:
        print(path)
    return 0


def _export(options: argparse.Namespace) -> int:
    from fedsuper.inference.export import export

    for path in export(options.supermodel, options.to, options.out):
        print(path)
    return 0


def _job(options: argparse.Namespace) -> int:
    from fedsuper.config import read_study
    from fedsuper.engines.flare.job import write_job
    from fedsuper.engines.run import check_study

    study = read_study(options.study, options.overrides)
    check_study(study)
    write_job(study, options.out)
    print(options.out)
    return 0


def _bench(options: argparse.Namespace) -> int:
    from fedsuper.bench import run_benchmarks

    return run_benchmarks(options.names, options.out)


def _methods(options: argparse.Namespace) -> int:
    from fedsuper.methods.describe import describe_methods

    print(describe_methods())
    return 0


if __name__ == "__main__":
    sys.exit(main())
