"""What a federation needs to run whole on this machine: names NVFlare takes, folders, and an environment."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedsuper.config import Study
from fedsuper.engines.flare import settings
from fedsuper.engines.in_process import sites_of
from fedsuper.errors import FedSuperError

WORKSPACE = "nvflare"
LOG = "nvflare.log"
# NVFlare remembers every message that came for a minute, each with a thread of its own, so that a sender on a bad line
# may repeat it: hundreds of threads where rounds are short. On one machine no message is lost.
STREAM_MEMORY, STREAM_SECONDS = "NVFLARE_STREAMING_RETRY_TIMEOUT", "5"
MEMORY, ROOM = Path("/dev/shm"), 256_000_000  # bytes that must be free there


@dataclass(frozen=True)
class OneMachine:
    """A federation whole on this machine: its sites, where they find their data, and the folder of all that comes out.

    `extra` is told to every process through the environment.
    """

    sites: list[str]
    data_root: Path
    folder: Path
    gpus: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Names are checked against NVFlare's rule before anything is started."""
        for site in self.sites:
            if not re.fullmatch(r"[A-Za-z0-9_-]+", site) or site == "server":
                raise FedSuperError(f"{site}: cannot be the name of an NVFlare client; rename the site's folder to "
                                    "letters, digits, - and _ (and not 'server'), or use --engine local")

    @property
    def log(self) -> Path:
        """NVFlare's own words."""
        return self.folder / LOG

    def environment(self) -> dict[str, str]:
        """Where every process of the federation finds data, state and its device."""
        return {
            settings.DATA: str(self.data_root),
            settings.STATE: str(self.folder / "state" / "sites"),
            settings.MINIMUM: "1",  # it is all one user's data
            settings.SERVER_STATE: str(self.folder / "state" / "server"),
            STREAM_MEMORY: STREAM_SECONDS,
        } | settings.deal_devices(self.gpus, self.sites) | dict(self.extra)


def for_study(study: Study, data_root: Path, folder: Path, gpus: str | None) -> OneMachine:
    """The federation that trains a study: one site per folder of the data root."""
    data_root, folder = Path(data_root).absolute(), Path(folder).absolute()
    return OneMachine(sites_of(study, data_root), data_root, folder, gpus)


def folder_in_memory(memory: Path = MEMORY) -> Path:
    """A new folder for what this machine's processes hand over: in memory, or where there is no room on disk."""
    try:
        roomy = shutil.disk_usage(memory).free >= ROOM
        return Path(tempfile.mkdtemp(prefix="fedsuper-", dir=memory if roomy else None))
    except OSError:  # no such folder, or not for us
        return Path(tempfile.mkdtemp(prefix="fedsuper-"))


def without_spaces(folder: Path, temporary: Path) -> Path:
    """A way to `folder` that NVFlare's command lines, which it splits at spaces, can hold."""
    if " " in sys.executable:
        raise FedSuperError(f"{sys.executable}: NVFlare cannot start processes from a path with spaces; install "
                            "FedSuper in another folder, or use --engine local")
    folder.mkdir(parents=True, exist_ok=True)
    link = temporary / "run"
    link.symlink_to(folder, target_is_directory=True)
    return link
