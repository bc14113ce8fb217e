"""NVFlare's simulator as a process of ours: `python -m fedsuper.engines.flare.launch.warm_simulator JOB -w ... -c ...`,
or a fork of whoever wants it (`births.own_fork`).

The same simulator; what differs costs or saves time only.

- Sites are forked from a warm process, which shares its imports with the server's. Of NVFlare's six ways to carry
  messages only the one that the simulator uses is loaded.
- Whoever waits looks again soon: NVFlare sleeps for half a second to three where a process starts, connects or ends,
  and where a site finds no task. Where every site has a process of its own, the server keeps a site's question open
  until there is work; where they take turns, a site that finds none makes room for the next.
- A site does not ask whether its answer is still wanted before it sends it, which NVFlare does to try a line that may
  be down. An answer that came too late is dropped by the server either way.
- Logs look at a file's size alone before each line, instead of at the line and the file's kind too.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from logging import LogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.fuel.f3 import communicator
from nvflare.fuel.f3.cellnet import connector_manager
from nvflare.fuel.f3.drivers.tcp_driver import TcpDriver
from nvflare.fuel.f3.mpm import MainProcessMonitor
from nvflare.fuel.utils.class_loader import get_class_name
from nvflare.fuel.utils.fobs import fobs
from nvflare.private.defs import SpecialTaskName
from nvflare.private.fed.app.simulator import simulator_runner, simulator_worker
from nvflare.private.fed.app.simulator.simulator import define_simulator_parser, run_simulator
from nvflare.private.fed.client import client_runner
from nvflare.private.fed.client.client_runner import ClientRunner
from nvflare.private.fed.server import fed_server
from nvflare.private.fed.server.server_runner import ServerRunner

from fedsuper.engines.flare import controller, executor, inference_controller, inference_executor
from fedsuper.engines.flare.contact.doorbell import WORK
from fedsuper.engines.flare.contact.shared_tensors import decomposer
from fedsuper.engines.flare.launch.births.nursery import Birth, Nursery
from fedsuper.engines.flare.launch.births.warmth import warm
from fedsuper.methods import METHODS, method_class

WORKER = simulator_worker.__name__
STARTING, POLLING = 0.05, 0.2  # seconds: the longest nap where a process starts, and where a site asks for work
OPEN, BLINK = 2.0, 0.01  # seconds: how long a question stays open, and the nap of a site whose questions do
MOST_OPEN = 32  # sites; each open question holds one of the threads that also take answers, of which NVFlare has 64
WARM = (controller, executor, inference_controller, inference_executor)  # imported here, shared by every fork


def site(arguments: Sequence[str]) -> None:
    """What NVFlare's worker does when it is started as a program."""
    sys.argv = [WORKER, *arguments]
    parsed = simulator_worker.parse_arguments()
    with contextlib.suppress(OSError):  # Linux: `top` shows the site
        Path("/proc/self/comm").write_text(parsed.client, encoding="utf-8")
    MainProcessMonitor.run(main_func=simulator_worker.main, run_dir=parsed.workspace, args=parsed)


def warm_up() -> None:
    """Import once what every process would import for itself."""
    communicator.driver_mgr.register(TcpDriver)
    communicator.driver_loaded = True
    for name in METHODS:
        method_class(name)


def hand_tensors_over() -> None:
    """Choose anew how tensors travel: a fork imported `wire` before it was given its folder."""
    chosen = decomposer()
    fobs._decomposers.pop(get_class_name(chosen.supported_type()), None)
    for kind in chosen.supported_dots() or ():
        fobs._dot_handlers.pop(kind, None)
    fobs.register(chosen)


def start_warm(nursery: Nursery) -> None:
    """Let the simulator's module, and only it, get its sites from the nursery."""

    def popen(command: Sequence[str], *, env: Mapping[str, str], **options: Any) -> Birth | subprocess.Popen[bytes]:
        if list(command[1:3]) == ["-m", WORKER]:
            return nursery.born(command[3:], env)
        return subprocess.Popen(command, env=env, **options)

    simulator_runner.subprocess = SimpleNamespace(Popen=popen, TimeoutExpired=subprocess.TimeoutExpired)


def nap_shorter(module: ModuleType, longest: float) -> None:
    """Let one module of NVFlare sleep no longer than this at a time; it looks at a condition after every nap."""
    shorter = {"sleep": lambda seconds: time.sleep(min(seconds, longest))}
    module.time = SimpleNamespace(**(vars(time) | shorter))  # type: ignore[attr-defined]


def keep_questions_open(runner: type[ServerRunner], longest: float) -> None:
    """Let the server answer a site that asks for work when there is some, or after `longest` seconds."""
    answer = runner.process_task_request

    def when_there_is_work(self: ServerRunner, client: Client, fl_ctx: FLContext) -> tuple[str, str, Shareable | None]:
        until = time.monotonic() + longest
        while True:
            heard = WORK.rings(client.name)
            task: tuple[str, str, Shareable | None] = answer(self, client, fl_ctx)
            if task[0] != SpecialTaskName.TRY_AGAIN or not WORK.wait(client.name, heard, until - time.monotonic()):
                return task

    runner.process_task_request = when_there_is_work


def send_at_once(runner: type[ClientRunner]) -> None:
    """Let a site send its answer without asking first: a line within a machine is not down."""
    runner._check_task_once = lambda self, task_id, fl_ctx: client_runner._TASK_CHECK_RESULT_OK


def log_cheaper(handler: type[RotatingFileHandler]) -> None:
    """Let a log begin a new file when the old one has its size, without writing every line twice to know it."""

    def is_full(self: RotatingFileHandler, record: LogRecord) -> bool:
        return self.maxBytes > 0 and self.stream is not None \
            and os.fstat(self.stream.fileno()).st_size >= self.maxBytes

    handler.shouldRollover = is_full  # type: ignore[method-assign]


def main(arguments: Sequence[str] | None = None) -> int:
    """The simulator's own command line; without `arguments` that of this process."""
    parser = argparse.ArgumentParser()
    define_simulator_parser(parser)
    options = parser.parse_args(arguments)
    sites = len(options.clients.split(","))
    own_process = options.threads >= sites and sites <= MOST_OPEN
    nap_shorter(simulator_worker, BLINK if own_process else POLLING)
    nap_shorter(fed_server, POLLING)
    for module in (connector_manager, client_runner, simulator_runner):
        nap_shorter(module, STARTING)
    send_at_once(ClientRunner)
    log_cheaper(RotatingFileHandler)
    warm_up()
    hand_tensors_over()
    gc.freeze()  # imports are for ever: nobody need look at them again, nor copy them to do so
    start_warm(Nursery(site, warm))
    if own_process:
        keep_questions_open(ServerRunner, OPEN)
    return int(run_simulator(options) or 0)


if __name__ == "__main__":
    sys.exit(main())
