"""What a machine computes with, as digests and versions that two machines can compare."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
from pathlib import Path

import torch

import fedsuper
from fedsuper import __version__
from fedsuper.config import Study
from fedsuper.data.task import Task
from fedsuper.federation.door.replies import Software
from fedsuper.methods.protocol.nets import segmentation_net

UNSHARED = ("federation", "compute")  # what a study may say otherwise without computing something else


@functools.cache
def software() -> Software:
    """Versions without the build (`2.13.0+cpu` is 2.13.0), and the code as it is installed."""
    code = code_digest(Path(fedsuper.__file__).parent)
    return Software(fedsuper=__version__, code=code, torch=_version("torch") or "", nvflare=_version("nvflare"))


def code_digest(package: Path) -> str:
    """SHA-256 over the names and contents of all Python files."""
    sha = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        sha.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return sha.hexdigest()[:16]


def study_digest(study: Study, task: Task) -> str:
    """A digest of method, settings and net: names, shapes and types of its entries for this task."""
    plain = {key: value for key, value in study.to_json().items() if key not in UNSHARED}
    with torch.device("meta"):
        net = segmentation_net(study, task).state_dict()
    entries = [f"{name}|{tuple(tensor.shape)}|{tensor.dtype}" for name, tensor in net.items()]
    return hashlib.sha256(json.dumps([plain, entries], sort_keys=True).encode()).hexdigest()[:16]


def differences(told: Software, here: Software) -> list[str]:
    """What a site runs that the server does not, in words."""
    pairs = [(name, getattr(told, name), getattr(here, name)) for name in Software.model_fields]
    return [f"{_TITLES[name]} {theirs}, the server {ours}" for name, theirs, ours in pairs if theirs != ours]


_TITLES = {"fedsuper": "FedSuper", "code": "the code", "torch": "torch", "nvflare": "nvflare"}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None
