"""What left a site, line by line, in a file that the site owns: when, for which task, what, how many bytes, which
bytes.

One JSON object a line, appended; nothing of it is sent. The digest is that of exactly what left, so that a site can
show later what it did and what it did not send.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import torch

from fedsuper.federation.messages import Message

AUDIT_FILE = "audit.jsonl"


def digest_of(message: Message) -> tuple[int, str]:
    """Bytes and SHA-256 of a message: its plain part as sorted JSON, then every tensor with its name and type."""
    digest = hashlib.sha256()
    size = 0

    def add(data: Any) -> None:
        nonlocal size
        digest.update(data)
        size += len(data)

    add(json.dumps(message.info, sort_keys=True).encode())
    for role, state in message.models.items():
        for name, tensor in state.items():
            add(f"{role}/{name}|{tensor.dtype}|{tuple(tensor.shape)}".encode())
            add(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return size, digest.hexdigest()


def write_line(path: Path, **what: Any) -> None:
    """Append one line with the time; a line is written whole, also where several processes write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    told = {"time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), **what}
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)  # the umask says who may read it
    try:
        os.write(file, (json.dumps(told) + "\n").encode())
    finally:
        os.close(file)


def audit_answer(path: Path, task: str, reply: Message, **more: Any) -> None:
    """The line of an answer that leaves."""
    size, reply.digest = digest_of(reply)
    models = {role: len(state) for role, state in reply.models.items()}
    write_line(path, task=task, result="sent", round=reply.info.get("round"), plain=sorted(reply.info), models=models,
               bytes=size, sha256=reply.digest, **more)
