"""Public sets, and data in common folder shapes, brought into the data-root layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fedsuper.data.importers.base import Importer, ImportResult, Skipped
from fedsuper.data.importers.general.folder import FOLDER
from fedsuper.data.importers.general.label_map import parse_label_map
from fedsuper.data.importers.general.nnunet import NNUNET
from fedsuper.data.importers.import_run import Mode, run_import
from fedsuper.data.importers.prostate.i2cvb import I2CVB
from fedsuper.data.importers.prostate.msd_prostate import MSD_PROSTATE
from fedsuper.data.importers.prostate.nci_isbi import NCI_ISBI
from fedsuper.data.importers.prostate.promise12 import PROMISE12
from fedsuper.data.importers.prostate.prostatex import PROSTATEX
from fedsuper.data.importers.prostate.saml import SAML
from fedsuper.data.importers.retina.drishti import DRISHTI_GS
from fedsuper.data.importers.retina.origa import ORIGA
from fedsuper.data.importers.retina.refuge import DOFE, REFUGE
from fedsuper.data.importers.retina.riga import RIGA
from fedsuper.data.importers.retina.rim_one import RIM_ONE_DL, RIM_ONE_R3
from fedsuper.errors import FedSuperError

__all__ = ["NAMES", "SOURCES", "ImportResult", "Importer", "Skipped", "import_dataset"]

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
        FOLDER,
        NNUNET,
    )
}
NAMES: dict[str, str] = {name: importer.about for name, importer in SOURCES.items()}


def import_dataset(
    source: str,
    raw: Path,
    out: Path,
    mode: Mode = "copy",
    progress: Callable[[int, int], None] | None = None,
    label_map: Sequence[str] = (),
) -> ImportResult:
    """Bring the set `source` from the folder `raw` into the site folder `out` (`ROOT/<site>`).

    `source` is a key of SOURCES, or `KEY:PART` for one hospital of a set that has several. Files that need no
    conversion are copied, or linked with mode "link". Running it again changes nothing; an error changes nothing
    either. `progress` is called with cases done and cases in all. `label_map` (`["255=1"]`) says what mask values mean,
    where the source leaves that open.
    """
    name, _, part = source.partition(":")
    if name not in SOURCES:
        raise FedSuperError(f"import: unknown source {name!r}; known are {', '.join(SOURCES)}")
    importer = SOURCES[name]
    if part and part not in importer.parts:
        parts = f"its parts are {', '.join(importer.parts)}" if importer.parts else "it has no parts"
        raise FedSuperError(f"import {name}: unknown part {part!r}; {parts}")
    if label_map:
        if importer.remapped is None:
            free = ", ".join(key for key, other in SOURCES.items() if other.remapped)
            raise FedSuperError(f"import {name}: what its masks hold is known; --map is for {free}")
        importer = importer.remapped(parse_label_map(label_map))
    return run_import(importer, part or None, Path(raw).absolute(), Path(out), mode, progress)
