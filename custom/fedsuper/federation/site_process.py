"""A site's worker in a process of its own: what answers the server outlives a crash, a hang or a lack of memory.

The process that answers writes each message to a file and a word to the child's standard input; the child answers in
the same way through a pipe. Messages are safetensors files in a folder that only this site reads, so not a bit changes.
The child lives for as long as the job, with its prepared samples in memory; after a death the next task starts another,
and as a site's state is files nothing is lost but the round.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from fedsuper.errors import OS_ADVICE, FedSuperError
from fedsuper.federation.messages import Message
from fedsuper.federation.outlet.redaction import redacted
from fedsuper.federation.outlet.release import SiteRules
from fedsuper.federation.site_worker import SiteWorker
from fedsuper.files import cut_back, forget_unfinished
from fedsuper.train.checkpoint import load_models, save_models

POLL = 0.2
FOLDER = "asked-"  # how the name of the folder of messages begins, in the site's state
ASKED, ANSWERED = "asked.safetensors", "answered.safetensors"
DONE, REFUSED = "done", "refused"
OPENLY = "openly"
LOG = "training.log"
LONGEST_LOG = 5_000_000


class SiteProcess:
    """Answers as `worker` would, from a child process. `log` is the folder of its words.

    On one machine a child may serve `others` too, and tell `openly` what went wrong, folders' names included.
    """

    def __init__(self, worker: SiteWorker, log: Path, others: Sequence[SiteWorker] = (), openly: bool = False) -> None:
        self.worker = worker
        self.others = list(others)
        self.openly = openly
        self.log = Path(log) / LOG
        self._process: subprocess.Popen[bytes] | None = None
        self._words = -1
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def handle(
        self, task: str, message: Message, seconds: float, stopped: Callable[[], bool], place: int = 0
    ) -> Message:
        """The child's answer; `stopped` tells that nobody waits for it any more. `place` is that of one of `others`."""
        folder = self._started()
        save_models(folder / ASKED, message.models, {"task": task, "info": message.info})
        word = self._say_and_hear(f"{place} {task}\n", time.monotonic() + seconds, stopped)
        if word is None:
            self.end()
            raise FedSuperError(f"was not done within {seconds:g} s; its training process was ended, the next task "
                                "starts another")
        if not word:
            code = self._process.wait() if self._process else None
            self.end()
            raise FedSuperError(f"its training process died (exit {code}), often for lack of memory; the next task "
                                f"starts another, and {LOG} in the job's folder at the site says more")
        kind, _, text = word.partition(" ")
        if kind == REFUSED:
            raise FedSuperError(json.loads(text))
        models, values = load_models(folder / ANSWERED)
        return Message(models, values["info"])

    def end(self) -> None:
        """End the child, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            os.close(self._words)
            self._process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _started(self) -> Path:
        """The folder of messages of a child that lives."""
        if self._process is not None and self._process.poll() is None and self._folder is not None:
            return Path(self._folder.name)
        self.end()
        self.worker.state_folder.mkdir(parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        forget_unfinished(self.worker.state_folder)
        for left in self.worker.state_folder.glob(f"{FOLDER}*"):  # by a job process that was killed
            shutil.rmtree(left, ignore_errors=True)
        self._folder = tempfile.TemporaryDirectory(prefix=FOLDER, dir=self.worker.state_folder)
        self._words, child_words = os.pipe()
        command = [sys.executable, "-m", "fedsuper.federation.site_process", self._folder.name, str(child_words),
                   OPENLY if self.openly else "", *map(described, [self.worker, *self.others])]
        cut_back(self.log, LONGEST_LOG)
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log,
                                             pass_fds=[child_words])
        os.close(child_words)
        return Path(self._folder.name)

    def _say_and_hear(self, word: str, deadline: float, stopped: Callable[[], bool]) -> str | None:
        """The child's word; empty where it died, None where it was late or is no longer wanted."""
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(word.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            return ""
        heard = b""
        while not heard.endswith(b"\n"):
            if stopped() or time.monotonic() > deadline:
                return None
            if select.select([self._words], [], [], POLL)[0]:
                part = os.read(self._words, 65536)
                if not part:
                    return ""
                heard += part
        return heard.decode().rstrip("\n")


def described(worker: SiteWorker) -> str:
    """A worker in one line of JSON, from which `restored` makes the same in another process."""
    return json.dumps({"name": worker.name, "data_root": str(worker.data_root), "rules": asdict(worker.rules),
                       "state_folder": str(worker.state_folder), "audit": str(worker.audit) if worker.audit else None})


def restored(text: str) -> SiteWorker:
    """The inverse of `described`."""
    told = json.loads(text)
    return SiteWorker(told["name"], Path(told["data_root"]), Path(told["state_folder"]), SiteRules(**told["rules"]),
                      Path(told["audit"]) if told["audit"] else None)


def answer(worker: SiteWorker, folder: Path, task: str, openly: bool = False) -> str:
    """What the child says after one task: that its answer is written, or why there is none."""
    models, values = load_models(folder / ASKED)
    try:
        reply = worker.handle(task, Message(models, values["info"]))
        save_models(folder / ANSWERED, reply.models, {"info": reply.info})
    except FedSuperError as problem:
        _log(str(problem))
        own = [*worker.data.places(), worker.state_folder]
        return f"{REFUSED} {json.dumps(str(problem) if openly else redacted(problem, own))}"
    except Exception as error:  # a crash of one task must not cost the next its prepared samples
        _log(traceback.format_exc())
        advice = OS_ADVICE.get(error.errno or 0) if isinstance(error, OSError) else None
        return f"{REFUSED} {json.dumps(advice or f'{type(error).__name__}; {LOG} at the site has the details')}"
    return DONE


def _log(text: str) -> None:
    with contextlib.suppress(OSError):  # a full disk takes no log either
        print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Answer until standard input ends: with the process that answers the server, its child ends, even in mid-task."""
    folder, words, openly, *told = sys.argv[1:]
    workers = list(map(restored, told))
    tasks: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            tasks.put(line.strip())
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        place, _, task = tasks.get().partition(" ")
        said = answer(workers[int(place)], Path(folder), task, openly == OPENLY)
        os.write(int(words), f"{said}\n".encode())


if __name__ == "__main__":
    main()
