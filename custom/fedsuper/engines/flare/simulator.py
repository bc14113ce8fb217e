"""`--engine sim`: a study on NVFlare's simulator, in processes of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO, TextIO

from fedsuper.config import Study
from fedsuper.core.supermodel import SuperModel
from fedsuper.engines.flare import one_machine, settings
from fedsuper.engines.flare.events import EventReader, reader_for
from fedsuper.engines.flare.job import write_job
from fedsuper.engines.flare.processes import ProcessFamily
from fedsuper.errors import FedSuperError
from fedsuper.inference.artefact import load_super_model

POLL = 0.2
GRACE = 60.0  # seconds for NVFlare to close down once the study has ended
DEATH = re.compile(rb"(?:Communication error with|Subprocess died for) client ([\w-]+)|run_client_thread error")


def run_simulator(study: Study, data_root: Path, folder: Path, progress_stream: TextIO | None = None,
                  threads: int | None = None, resume: bool = False, gpus: str | None = None) -> SuperModel:
    """Run a study with one simulated client per site and return the super model, left in `folder/supermodel`.

    `threads` sites work at the same time (default: all, which also spares the simulator from starting every task in a
    new process). State is in `folder/state`, NVFlare's own files and log in `folder/nvflare` and `folder/nvflare.log`.
    """
    with tempfile.TemporaryDirectory(prefix="fedsuper-") as temporary:
        job = Path(temporary) / "job"
        write_job(study, job, resume=resume)
        simulate(job, study, data_root, folder, progress_stream, threads, gpus)
    return load_super_model(Path(folder) / "supermodel")


def simulate(job: Path, study: Study, data_root: Path, folder: Path, progress_stream: TextIO | None = None,
             threads: int | None = None, gpus: str | None = None) -> None:
    """Run a job folder that holds `study`; an early end is one error with the server's reason."""
    data_root, folder = Path(data_root).absolute(), Path(folder).absolute()
    sites = one_machine.usable_sites(study, data_root)
    if threads is not None and threads < 1:
        raise FedSuperError(f"--threads {threads}: at least 1 site must be able to work")
    log, events = folder / one_machine.LOG, folder / "state" / "events.jsonl"
    events.unlink(missing_ok=True)
    environment = one_machine.environment(data_root, folder, sites, gpus)
    environment |= {settings.OUT: str(folder / "supermodel"), settings.EVENTS: str(events)}
    reader = reader_for(study, progress_stream)
    with tempfile.TemporaryDirectory(prefix="fedsuper-") as temporary:
        workspace = one_machine.without_spaces(folder, Path(temporary)) / one_machine.WORKSPACE
        count = len(sites)
        command = [sys.executable, "-m", "nvflare.cli", "simulator", str(job), "-w", str(workspace),
                   "-c", ",".join(sites), "-t", str(min(threads or count, count)), "-m", str(count)]
        _run(command, environment, log, reader, events)
    if not reader.done:
        raise FedSuperError(reader.failure or f"the simulator ended before the study did; see {log}")


def _run(command: list[str], environment: dict[str, str], log: Path, reader: EventReader, events: Path) -> None:
    """Start the simulator and show its events until it ends; whatever happens, no process is left."""
    family = ProcessFamily()
    with open(log, "ab") as output, open(log, "rb") as written, family.kept():
        written.seek(0, os.SEEK_END)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   start_new_session=True, env=family.environment(environment))
        patience = GRACE
        while process.poll() is None and patience > 0:
            reader.read_file(events)
            if reader.done or reader.failure:
                patience -= POLL
            else:
                _check_sites_live(written, log)
            try:
                process.wait(POLL)
            except subprocess.TimeoutExpired:
                continue
    reader.read_file(events)


def _check_sites_live(written: BinaryIO, log: Path) -> None:
    """The simulator only logs the death of a site's process, and the server would wait for it until the round's end."""
    for line in written:
        found = DEATH.search(line)
        if found:
            site = (found[1] or b"a site").decode()
            raise FedSuperError(f"{site}: its process died (often for lack of memory); see {log}; then go on with "
                                "--resume, perhaps with fewer --threads")
