"""`fedsuper run`: one study, one engine, one folder with everything that came out."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from fedsuper.config import Study
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.layout import find_sites
from fedsuper.engines.local import run_local, sites_of
from fedsuper.engines.progress import Progress
from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write_text
from fedsuper.inference.artefact import save_super_model
from fedsuper.models.build import smallest_image

ENGINES = ("sim", "local", "poc", "prod")


def check_study(study: Study) -> None:
    """What can be known to fail before a site is asked."""
    step = smallest_image(study.model)
    if study.image_size % step or study.image_size < 2 * step:
        raise FedSuperError(
            f"image_size {study.image_size} does not fit the model: its {len(study.model.channels)} levels "
            f"need a multiple of {step}, at least {2 * step}"
        )


def run_study(
    study: Study,
    data_root: Path,
    out: Path,
    engine: str = "sim",
    threads: int | None = None,
    gpus: str | None = None,
    resume: bool = False,
    kit: Path | None = None,
) -> SuperModel:
    """Train a super model and leave it in `out/supermodel`.

    An `out` that already holds a run is not written over: resume it or choose another folder.
    """
    check_study(study)
    out = Path(out)
    if not resume and (out / "study.yaml").exists():
        raise FedSuperError(f"{out}: already holds a run; add --resume to go on with it, or give another --out")
    if engine != "prod":
        find_sites(Path(data_root))  # a missing or empty data root is told before anything is written
    atomic_write_text(out / "study.yaml", yaml.safe_dump(study.to_json(), sort_keys=False))
    if engine == "local":
        total = study.rounds if isinstance(study.rounds, int) else None
        progress = Progress(study.method, total)
        super_model = run_local(study, Path(data_root), out / "state", progress, threads, resume)
        save_super_model(super_model, out / "supermodel")
        return super_model
    return _run_on_nvflare(study, Path(data_root), out, engine, threads, gpus, resume, kit)


def _run_on_nvflare(
    study: Study,
    data_root: Path,
    out: Path,
    engine: str,
    threads: int | None,
    gpus: str | None,
    resume: bool,
    kit: Path | None,
) -> SuperModel:
    # nvflare is slow to import and only needed here.
    if engine == "sim":
        from fedsuper.engines.flare.simulator import run_simulator

        return run_simulator(study, data_root, out, sys.stderr, threads=threads, resume=resume, gpus=gpus)
    if engine == "poc":
        from fedsuper.engines.flare.poc import run_poc

        return run_poc(study, data_root, out, sys.stderr, threads=threads, resume=resume, gpus=gpus)
    if kit is None:
        raise FedSuperError("--engine prod: needs --kit, the folder of the admin's start-up kit")
    from fedsuper.engines.flare.prod import run_prod

    return run_prod(study, out, kit, sys.stderr, resume=resume)


__all__ = ["ENGINES", "check_study", "run_study", "sites_of"]
