"""Commands that train, or prepare training elsewhere."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedsuper.cli.command import Command, without_blas_threads
from fedsuper.cli.options import add_data, add_engine, add_out, add_set, count
from fedsuper.display import closing_panel
from fedsuper.errors import FedSuperError

if TYPE_CHECKING:
    from fedsuper.studies.compare import Comparison


def _add_study(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "study", type=Path, metavar="STUDY.yaml", help="what to compute; its keys are in docs/reference/study.md"
    )


def _run_options(parser: argparse.ArgumentParser) -> None:
    _add_study(parser)
    add_data(parser)
    add_out(parser, "RUN", "the run's folder; the super model is left in RUN/supermodel")
    add_engine(parser, ["sim", "local", "poc", "prod"])
    parser.add_argument("--resume", action="store_true", help="go on from the last complete round")
    parser.add_argument("--from-round", type=int, metavar="N", help="with --resume: undo every round after round N")
    parser.add_argument("--without", action="append", default=[], metavar="SITE",
                        help="with --resume: go on without a site that left for good; may be given again")
    add_set(parser)


def _run(options: argparse.Namespace) -> int:
    from fedsuper.config.reading import read_study
    from fedsuper.studies.run import Resume, run_study
    from fedsuper.studies.score import score_run

    if not options.resume and (options.from_round is not None or options.without):
        raise FedSuperError("--from-round and --without change how a run is resumed; add --resume")
    study = read_study(options.study, options.overrides)
    resume = Resume(options.from_round, tuple(options.without)) if options.resume else False
    run_study(study, options.data, options.out, options.engine, options.threads, options.gpus, resume, options.kit)
    print(score_run(options.out, options.data if options.engine != "prod" else None))
    super_model = options.out / "supermodel"
    closing_panel(
        "done",
        {
            "super model": str(super_model),
            "predict": f"fedsuper predict {super_model} IMAGES --out masks",
            "report": f"fedsuper report {options.out} --out {options.out / 'report.html'}",
        },
    )
    return 0


def _add_rows(parser: argparse.ArgumentParser) -> None:
    """What several rows are trained with, and how."""
    from fedsuper.methods import METHODS

    add_data(parser)
    parser.add_argument(
        "--methods",
        metavar="NAME,NAME,...",
        help=f"of {', '.join(METHODS)}, or all (default: centralized,local,fedavg,fedsm); "
        "a row may change keys: fedsm+personal=ft, fedbn+model.norm=batch",
    )
    parser.add_argument("--config", type=Path, metavar="STUDY.yaml", help="what all rows share (default: the defaults)")
    parser.add_argument("--seeds", metavar="0,1,2", help="every row once with each (default: 0)")
    parser.add_argument("--engine", choices=["local", "sim"], default="local", help="(default: local)")
    parser.add_argument("--threads", type=count, metavar="N", help="sites at work at the same time (default: all)")
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="rows trained side by side, each in a process (default: by cores and memory; 1 with --engine sim)",
    )
    add_set(parser)


def _rows(options: argparse.Namespace) -> Comparison:
    from fedsuper.config.reading import read_study
    from fedsuper.studies.compare import Comparison, rows_named

    study = read_study(options.config, options.overrides)
    rows, seeds = rows_named(options.methods), _numbers(options.seeds or "0")
    return Comparison(study, options.data, rows, seeds, options.out, options.engine, options.threads,
                      workers=options.workers)


def _compare_options(parser: argparse.ArgumentParser) -> None:
    from fedsuper.studies.on_demand.exhibit_names import EXHIBITS
    from fedsuper.studies.ready.ready_names import ready_names

    _add_rows(parser)
    parser.add_argument("--out", type=Path, metavar="RUN", help="the comparison's folder (with --study: runs/NAME)")
    parser.add_argument(
        "--study",
        metavar="NAME",
        help=f"a paper's comparison with methods, seeds and study of its own: {', '.join(ready_names())}",
    )
    told = "; ".join(f"{name}: {words}" for name, words in EXHIBITS.items())
    parser.add_argument(
        "--with", dest="exhibits", action="append", default=[], choices=list(EXHIBITS),
        help=f"further figures of the report; may be repeated. {told}"
    )  # fmt: skip
    parser.add_argument("--leave-out", metavar="SITE|all", help="train without this site and score on it")


def _compare(options: argparse.Namespace) -> int:
    without_blas_threads()
    from fedsuper.studies.compare import compare_and_tell
    from fedsuper.studies.leave_out import leave_out
    from fedsuper.studies.on_demand.exhibit_names import OUTSIDE

    if options.study:
        return _compare_ready(options)
    if options.out is None:
        raise FedSuperError("compare: needs --out RUN, a folder for the results (or --study, which has its own)")
    for name in options.exhibits:
        if (name in OUTSIDE) != bool(options.leave_out):
            wants = "needs a site that took no part; add" if name in OUTSIDE else "looks at sites inside; leave out"
            raise FedSuperError(f"compare: --with {name} {wants} --leave-out")
    what = replace(_rows(options), exhibits=tuple(options.exhibits))
    print(leave_out(what, options.leave_out) if options.leave_out else compare_and_tell(what))
    _close_comparison(options.out)
    return 0


def _close_comparison(out: Path) -> None:
    report = f"fedsuper report {shlex.quote(str(out))} --out {shlex.quote(str(out / 'report.html'))}"
    closing_panel("done", {"scores": str(out / "metrics.json"), "report": report})


def _compare_ready(options: argparse.Namespace) -> int:
    from fedsuper.studies.ready.ready_study import compare_ready, read_ready

    given = [name for name in ("methods", "config", "leave_out", "exhibits") if getattr(options, name)]
    if given:
        name = "with" if given[0] == "exhibits" else given[0].replace("_", "-")
        raise FedSuperError(f"compare: --study {options.study} brings its own --{name}; leave one of the two out")
    ready = read_ready(options.study, options.overrides)
    seeds = _numbers(options.seeds) if options.seeds else ready.seeds
    out = options.out or Path("runs") / ready.name
    print(compare_ready(ready, options.data, out, seeds, options.engine, options.threads, options.workers))
    return 0


def _sweep_options(parser: argparse.ArgumentParser) -> None:
    _add_rows(parser)
    add_out(parser, "RUN", "the sweep's folder")
    parser.add_argument(
        "--over",
        action="append",
        default=[],
        metavar="KEY=V1,V2",
        help="a key and the values to try, for example fedsm.lambda=0.3,0.5,0.7; all combinations if repeated",
    )


def _sweep(options: argparse.Namespace) -> int:
    without_blas_threads()
    from fedsuper.studies.sweep import parse_axis, sweep

    if not options.over:
        raise FedSuperError("sweep: nothing to try; add --over KEY=V1,V2, for example --over fedsm.lambda=0.3,0.7")
    print(sweep(_rows(options), [parse_axis(text) for text in options.over]))
    _close_comparison(options.out)
    return 0


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise FedSuperError(f"--seeds {text}: expected whole numbers, for example 0,1,2") from None


def _job_options(parser: argparse.ArgumentParser) -> None:
    _add_study(parser)
    add_out(parser, "DIR", "the job folder to make")
    add_set(parser)


def _job(options: argparse.Namespace) -> int:
    from fedsuper.config.reading import read_study
    from fedsuper.engines.flare.job import write_job

    study = read_study(options.study, options.overrides)
    write_job(study, options.out)
    print(options.out)
    return 0


def _no_options(parser: argparse.ArgumentParser) -> None:
    return


def _methods(options: argparse.Namespace) -> int:
    from fedsuper.methods.protocol.describe import describe_methods

    print(describe_methods())
    return 0


COMMANDS = [
    Command(
        "run", "train one study", _run_options, _run, "--resume", "{study} on {data}, engine {engine}, results in {out}"
    ),
    Command(
        "compare",
        "train several methods and print one table",
        _compare_options,
        _compare,
        resume="",
        starting="on {data}, engine {engine}",
    ),
    Command(
        "sweep",
        "tune methods alike on validation data and score what was chosen",
        _sweep_options,
        _sweep,
        resume="",
        starting="on {data}, engine {engine}, results in {out}",
    ),
    Command("job", "write a submittable NVFlare job folder", _job_options, _job),
    Command(
        "methods", "list every method: what travels, what sites keep, its paper and knobs", _no_options, _methods
    ),
]
