"""`fedsuper run`: one study, one engine, one folder with everything that came out."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from fedsuper.config import Study
from fedsuper.core.supermodel import SuperModel
from fedsuper.engines.in_process import run_local, sites_of
from fedsuper.errors import FedSuperError
from fedsuper.federation.checkpoints import Resume, has_checkpoint
from fedsuper.federation.handshake import check_attendance
from fedsuper.federation.progress import Progress
from fedsuper.files import atomic_write_text, owned
from fedsuper.inference.artifact import save_super_model
from fedsuper.methods import create_method
from fedsuper.methods.protocol.phases import planned_rounds


def run_study(
    study: Study,
    data_root: Path,
    out: Path,
    engine: str = "sim",
    threads: int | None = None,
    gpus: str | None = None,
    resume: bool | Resume = False,
    kit: Path | None = None,
) -> SuperModel:
    """Train a super model and leave it in `out/supermodel`.

    An `out` that already holds a run is not written over: resume it or choose another folder. One that was ended before
    its first round was complete holds nothing yet: it may be resumed, or run again as if it were empty.
    """
    out = Path(out)
    data_root = Path(data_root)
    if engine != "prod":
        # A missing or empty data root, or too few sites, are told before anything is written.
        check_attendance(study, sites_of(study, data_root))
    else:
        from fedsuper.engines.flare.launch.link import checked_kit

        kit = checked_kit(kit)
    with owned(out, "a run"):
        begun = has_checkpoint(out / "state" / "server") or (out / "supermodel").exists() or engine == "prod"
        if not resume and begun and (out / "study.yaml").exists():
            raise FedSuperError(f"{out}: already holds a run; add --resume to go on with it, or give another --out")
        atomic_write_text(out / "study.yaml", yaml.safe_dump(study.to_json(), sort_keys=False))
        if engine == "local":
            total = planned_rounds(study, create_method(study).phases())
            with Progress(study.method, total, run=out) as progress:
                super_model = run_local(study, data_root, out / "state", progress, threads, resume)
            save_super_model(super_model, out / "supermodel")
            return super_model
        return _run_on_nvflare(study, data_root, out, engine, threads, gpus, resume, kit)


def _run_on_nvflare(
    study: Study,
    data_root: Path,
    out: Path,
    engine: str,
    threads: int | None,
    gpus: str | None,
    resume: bool | Resume,
    kit: Path | None,
) -> SuperModel:
    # nvflare is slow to import and only needed here.
    if engine == "sim":
        from fedsuper.engines.flare.launch.simulator import run_simulator

        return run_simulator(study, data_root, out, sys.stderr, threads=threads, resume=resume, gpus=gpus)
    if engine == "poc":
        from fedsuper.engines.flare.launch.poc import run_poc

        return run_poc(study, data_root, out, sys.stderr, threads=threads, resume=resume, gpus=gpus)
    from fedsuper.engines.flare.launch.prod import run_prod

    assert kit is not None
    return run_prod(study, out, kit, sys.stderr, resume=resume)


__all__ = ["Resume", "run_study"]
