"""Public sets in their own folder shapes, brought into the data-root layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fedsuper.data.importers.base import Importer, ImportResult, Skipped
from fedsuper.data.importers.drishti import DRISHTI_GS
from fedsuper.data.importers.i2cvb import I2CVB
from fedsuper.data.importers.msd_prostate import MSD_PROSTATE
from fedsuper.data.importers.nci_isbi import NCI_ISBI
from fedsuper.data.importers.origa import ORIGA
from fedsuper.data.importers.promise12 import PROMISE12
from fedsuper.data.importers.prostatex import PROSTATEX
from fedsuper.data.importers.refuge import DOFE, REFUGE
from fedsuper.data.importers.riga import RIGA
from fedsuper.data.importers.rim_one import RIM_ONE_DL, RIM_ONE_R3
from fedsuper.data.importers.run import Mode, run_import
from fedsuper.data.importers.saml import SAML
from fedsuper.errors import FedSuperError

__all__ = ["SOURCES", "ImportResult", "Importer", "Skipped", "import_dataset"]

SOURCES: dict[str, Importer] = {
    importer.source: importer
    for importer in (
        DRISHTI_GS,
        RIM_ONE_DL,
        RIM_ONE_R3,
        REFUGE,
        RIGA,
        ORIGA,
        DOFE,
        PROMISE12,
        MSD_PROSTATE,
        NCI_ISBI,
        PROSTATEX,
        I2CVB,
        SAML,
    )
}


def import_dataset(
    source: str,
    raw: Path,
    out: Path,
    mode: Mode = "copy",
    progress: Callable[[int, int], None] | None = None,
) -> ImportResult:
    """Bring the public set `source` from the folder `raw` into the site folder `out` (`ROOT/<site>`).

    `source` is a key of SOURCES, or `KEY:PART` for one hospital of a set that has several. Files that need no
    conversion are copied, or linked with mode "link". Running it again changes nothing; an error changes nothing
    either. `progress` is called with cases done and cases in all.
    """
    name, _, part = source.partition(":")
    if name not in SOURCES:
        raise FedSuperError(f"import: unknown source {name!r}; known are {', '.join(SOURCES)}")
    importer = SOURCES[name]
    if part and part not in importer.parts:
        parts = f"its parts are {', '.join(importer.parts)}" if importer.parts else "it has no parts"
        raise FedSuperError(f"import {name}: unknown part {part!r}; {parts}")
    return run_import(importer, part or None, Path(raw).absolute(), Path(out), mode, progress)
