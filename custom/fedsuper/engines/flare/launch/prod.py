"""`--engine prod`: work on a federation that is already running, submitted with an admin's start-up kit."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from fedsuper.config import Study
from fedsuper.core.supermodel import SuperModel
from fedsuper.engines.flare.job import write_recipe
from fedsuper.engines.flare.launch.events import SUPER_MODEL, EventReader, reader_for
from fedsuper.engines.flare.launch.link import Link
from fedsuper.engines.flare.launch.restarts import restarted
from fedsuper.engines.flare.launch.session import follow_job, run_job, running_job, stop_job
from fedsuper.engines.flare.recipe import FedSuperRecipe, SuperModelJob
from fedsuper.federation.checkpoints import Resume
from fedsuper.inference.artifact import load_super_model, save_super_model


def run_prod(
    study: Study, folder: Path, kit: Path, progress_stream: TextIO | None, resume: bool | Resume = False
) -> SuperModel:
    """Train the study, wait for it, bring the super model to `folder/supermodel`.

    A job that is still at work for this folder is followed again instead of submitting a second one, unless the resume
    changes the study's course (`--from-round`, `--without`): then it is ended first. One that dies is submitted again.
    """
    folder = Path(folder).absolute()
    reader = reader_for(study, progress_stream, folder)
    with linked(kit, reader) as link:

        def attempt(going: bool | Resume) -> Path:
            current = running_job(link, folder) if going else None
            if current is not None and going in (True, Resume()):
                reader.progress.note(f"job {current} is still at work: following it")
                return follow_job(link, current, folder, reader)
            if current is not None:
                stop_job(link, current)
            return submitted(link, FedSuperRecipe(study, going), folder, reader)

        super_model = load_super_model(restarted(study.federation.restarts, reader, resume, attempt) / SUPER_MODEL)
    save_super_model(super_model, folder / SUPER_MODEL)
    return super_model


def submit(recipe: SuperModelJob, folder: Path, kit: Path, reader: EventReader) -> Path:
    """Submit, wait, bring the server's results to `folder/job`; where they then lie.

    Data and state stay where the sites keep them. Interrupting this call leaves the job running.
    """
    with linked(kit, reader) as link:
        return submitted(link, recipe, Path(folder).absolute(), reader)


def submitted(link: Link, recipe: SuperModelJob, folder: Path, reader: EventReader) -> Path:
    """The same over a link. The job carries no `custom` folder: server and sites have FedSuper's classes on their
    allow-lists."""
    with tempfile.TemporaryDirectory(prefix="fedsuper-") as temporary:
        job = Path(temporary) / recipe.name
        write_recipe(recipe, job, custom=False)
        return run_job(link, job, folder, reader)


@contextlib.contextmanager
def linked(kit: Path, reader: EventReader) -> Iterator[Link]:
    """A link to the server for as long as the block runs."""
    link = Link(kit, reader.progress.note)
    try:
        yield link
    finally:
        link.close()
