"""`--engine sim`: a study on NVFlare's simulator, in processes of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, TextIO

from fedsuper.config import Study
from fedsuper.core.supermodel import SuperModel
from fedsuper.engines.flare import settings
from fedsuper.engines.flare.job import may_change_messages, write_recipe
from fedsuper.engines.flare.launch import one_machine, warm_simulator
from fedsuper.engines.flare.launch.births import own_fork
from fedsuper.engines.flare.launch.events import SUPER_MODEL, EventReader, reader_for
from fedsuper.engines.flare.launch.one_machine import OneMachine
from fedsuper.engines.flare.launch.processes import ProcessFamily
from fedsuper.engines.flare.launch.restarts import BrokenOffError, restarted
from fedsuper.engines.flare.recipe import FedSuperRecipe, SuperModelJob
from fedsuper.errors import FedSuperError
from fedsuper.federation.checkpoints import Resume
from fedsuper.files import cut_back
from fedsuper.inference.artifact import load_super_model

POLL = 0.05
GRACE = 60.0  # seconds for NVFlare to close down once the study has ended
LONGEST_LOG = 20_000_000  # bytes of NVFlare's words, and as many of those before
LAST_WORD = 3.0  # seconds for the server to say that the study has ended, after which a site's process ends rightly
STATISTICS = "server/pool_stats/simulator_cell_stats.json"  # written when all events were handled and all files closed
DEATH = re.compile(rb"(?:Communication error with|Subprocess died for) client ([\w-]+)|run_client_thread error")


def run_simulator(study: Study, data_root: Path, folder: Path, progress_stream: TextIO | None = None,
                  threads: int | None = None, resume: bool | Resume = False, gpus: str | None = None) -> SuperModel:
    """Run a study with one simulated client per site and return the super model, left in `folder/supermodel`.

    `threads` sites work at the same time (default: all, which also spares the simulator from starting every task in a
    new process). State is in `folder/state`, NVFlare's own files and log in `folder/nvflare` and `folder/nvflare.log`.
    A run whose processes die (for lack of memory, or of a port that another program took) is started again.
    """
    place = one_machine.for_study(study, data_root, folder, gpus)
    reader = reader_for(study, progress_stream, place.folder)
    out = place.folder / SUPER_MODEL
    restarted(study.federation.restarts, reader, resume,
              lambda going: simulate(FedSuperRecipe(study, going), place, reader, out, threads))
    return load_super_model(out)


def simulate(recipe: SuperModelJob, place: OneMachine, reader: EventReader, out: Path, threads: int | None = None,
             on_death: Callable[[str], None] | None = None) -> None:
    """Run a recipe, its result in `out`; an early end is one error with the server's reason.

    `on_death` hears of a site whose process died; without it, that ends the run.
    """
    with tempfile.TemporaryDirectory(prefix="fedsuper-") as temporary:
        write_recipe(recipe, Path(temporary) / "job")
        simulate_folder(Path(temporary) / "job", place, reader, out, threads, on_death)


def simulate_folder(job: Path, place: OneMachine, reader: EventReader, out: Path, threads: int | None = None,
                    on_death: Callable[[str], None] | None = None) -> None:
    """As `simulate`, for a job folder that is there."""
    if threads is not None and threads < 1:
        raise FedSuperError(f"--threads {threads}: at least 1 site must be able to work")
    events = place.folder / "state" / "events.jsonl"
    events.unlink(missing_ok=True)
    environment = place.environment() | {settings.OUT: str(out), settings.EVENTS: str(events)}
    with tempfile.TemporaryDirectory(prefix="fedsuper-") as temporary:
        workspace = one_machine.without_spaces(place.folder, Path(temporary)) / one_machine.WORKSPACE
        count = len(place.sites)
        if (threads or count) >= count and not place.gpus:
            environment[settings.PLACES] = str(os.cpu_count() or 1)
        if not may_change_messages(job):
            environment[settings.UNFILTERED] = "1"
        arguments = [str(job), "-w", str(workspace), "-c", ",".join(place.sites),
                     "-t", str(min(threads or count, count)), "-m", str(count)]
        _run(arguments, environment, place.log, reader, events, workspace / STATISTICS,
             on_death or partial(_stop, place.log))
    if reader.failure:
        raise FedSuperError(reader.failure)
    if not reader.done:
        raise BrokenOffError("the simulator ended before the work did", f"see {place.log}; then go on with --resume")


def _run(arguments: list[str], environment: dict[str, str], log: Path, reader: EventReader, events: Path,
         statistics: Path, on_death: Callable[[str], None]) -> None:
    """Start the simulator and show its events until it ends; whatever happens, no process is left.

    NVFlare sleeps for seconds after it has written its statistics; that is not waited for.
    """
    family = ProcessFamily()
    statistics.unlink(missing_ok=True)
    shared = one_machine.folder_in_memory()
    environment = environment | {settings.SHARED: str(shared)}
    with open(log, "ab") as output, open(log, "rb") as written, family.kept(shared):
        written.seek(0, os.SEEK_END)
        process = _started(arguments, family.environment(environment), output, family.mark)
        patience = GRACE
        while process.poll() is None and patience > 0:
            reader.read_file(events)
            if cut_back(log, LONGEST_LOG):
                written.seek(0)
            if reader.done or reader.failure:
                patience = patience - POLL if not statistics.exists() else 0.0
            else:
                for site in _deaths(written):
                    if not _has_ended(reader, events):
                        on_death(site)
            try:
                process.wait(POLL)
            except subprocess.TimeoutExpired:
                continue
    reader.read_file(events)


def _started(arguments: list[str], environment: dict[str, str], output: BinaryIO,
             mark: str) -> own_fork.OwnFork | subprocess.Popen[bytes]:
    """The simulator's process: a fork of this one where that is safe, which spares it the imports, else a new one."""
    if own_fork.is_safe():
        return own_fork.forked(partial(warm_simulator.main, arguments), environment, output, mark)
    return subprocess.Popen([sys.executable, "-m", warm_simulator.__name__, *arguments], stdin=subprocess.DEVNULL,
                            stdout=output, stderr=subprocess.STDOUT, start_new_session=True, env=environment)


def _deaths(written: BinaryIO) -> Iterator[str]:
    """The simulator only logs the death of a site's process, and the server would wait for it until the round's end."""
    for line in written:
        found = DEATH.search(line)
        if found:
            yield (found[1] or b"a site").decode()


def _has_ended(reader: EventReader, events: Path) -> bool:
    """Whether a site's process ended because the work has: the server's last word may reach us after its log."""
    deadline = time.monotonic() + LAST_WORD
    while True:
        reader.read_file(events)
        if reader.done or reader.failure:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)


def _stop(log: Path, site: str) -> None:
    raise BrokenOffError(f"{site}: its process died (often for lack of memory)",
                         f"see {log}; then go on with --resume, perhaps with fewer --threads")
