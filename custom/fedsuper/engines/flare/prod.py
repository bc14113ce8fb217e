"""`--engine prod`: a study on a federation that is already running, submitted with an admin's start-up kit."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TextIO

from fedsuper.config import Study
from fedsuper.core.supermodel import SuperModel
from fedsuper.engines.flare.events import reader_for
from fedsuper.engines.flare.job import write_job
from fedsuper.engines.flare.session import open_session, run_job


def run_prod(study: Study, folder: Path, kit: Path, progress_stream: TextIO | None, resume: bool = False,
             custom: bool = False) -> SuperModel:
    """Submit the study, wait for it, bring the super model to `folder/supermodel`.

    Data and state stay where the sites keep them. Interrupting this call leaves the job running. The job carries no
    `custom` folder: server and sites have FedSuper on their allow-lists; `custom=True` is for a federation without.
    """
    folder = Path(folder).absolute()
    reader = reader_for(study, progress_stream)
    session = open_session(kit)
    try:
        with tempfile.TemporaryDirectory(prefix="fedsuper-") as temporary:
            job = Path(temporary) / f"fedsuper-{study.method}"
            write_job(study, job, custom=custom, resume=resume)
            return run_job(session, job, folder, reader)
    finally:
        session.close()
