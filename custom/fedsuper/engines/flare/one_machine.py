"""What a federation needs to run whole on this machine: names NVFlare takes, folders, and an environment."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from fedsuper.config import Study
from fedsuper.engines.flare import settings
from fedsuper.engines.local import sites_of
from fedsuper.errors import FedSuperError

WORKSPACE = "nvflare"
LOG = "nvflare.log"


def usable_sites(study: Study, data_root: Path) -> list[str]:
    """The study's sites, checked against NVFlare's rule for a client's name before anything is started."""
    sites = sites_of(study, data_root)
    for site in sites:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", site) or site == "server":
            raise FedSuperError(f"{site}: cannot be the name of an NVFlare client; rename the site's folder to "
                                "letters, digits, - and _ (and not 'server'), or use --engine local")
    return sites


def environment(data_root: Path, folder: Path, sites: list[str], gpus: str | None) -> dict[str, str]:
    """Where every process of the federation finds data, state and its device."""
    return {
        settings.DATA: str(data_root),
        settings.STATE: str(folder / "state" / "sites"),
        settings.SERVER_STATE: str(folder / "state" / "server"),
    } | settings.deal_devices(gpus, sites)


def without_spaces(folder: Path, temporary: Path) -> Path:
    """A way to `folder` that NVFlare's command lines, which it splits at spaces, can hold."""
    if " " in sys.executable:
        raise FedSuperError(f"{sys.executable}: NVFlare cannot start processes from a path with spaces; install "
                            "FedSuper in another folder, or use --engine local")
    folder.mkdir(parents=True, exist_ok=True)
    link = temporary / "run"
    link.symlink_to(folder, target_is_directory=True)
    return link
