"""A super model for other tools: every net as a program of its own (pt2, onnx) or all of them as a MONAI bundle.

Each export is a folder with one file per net, `export.json`, which says how the nets are put to work (the task, the
preprocessing, the selector's classes, the gate), and `MODEL_CARD.md`, which says what they are worth and for what. The
folder appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from torch import nn

from fedsuper.core.supermodel import SELECTOR
from fedsuper.data.draft_folder import draft_beside
from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write_json, atomic_write_text
from fedsuper.inference.export.bundle import write_bundle
from fedsuper.inference.export.card import CARD, model_card
from fedsuper.inference.export.parts import LOGITS, Parts
from fedsuper.inference.export.programs import as_predicted, write_onnx, write_pt2
from fedsuper.inference.predictor import Predictor

DESCRIPTION = "export.json"
ONNX_PACKAGES = ("onnx", "onnxscript")

# Puts the nets into an empty folder and returns each model's file, relative to that folder.
Writer = Callable[[Parts, Path], dict[str, str]]
# Writes one net: the predictor it is of, the net, the file, the names of its outputs.
ProgramWriter = Callable[[Predictor, nn.Module, Path, Sequence[str]], None]


def export(folder: Path, to: str, out: Path, name_sites: bool = False) -> list[Path]:
    """Write the super model in `folder` to the new or empty folder `out` as `to`; return the files written.

    Sites are numbers in all that is written, file names included, unless `name_sites`.
    """
    writer = _writer(to)
    out = Path(out).resolve()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FedSuperError(f"--out {out}: already holds something; name a new or an empty folder")
    parts = Parts.of(folder, name_sites)
    try:
        with draft_beside(out) as draft:
            files = writer(parts, draft)
            digests = {file: _digest(draft / file) for file in files.values()}
            if files:
                atomic_write_json(draft / DESCRIPTION, parts.describe(files, digests))
            atomic_write_text(draft / CARD, model_card(parts, files, digests))
            written = sorted(path.relative_to(draft) for path in draft.rglob("*") if path.is_file())
            os.replace(draft, out)
    except OSError as error:
        raise FedSuperError(f"--out {out}: cannot be written ({error.strerror or error}); "
                            "check its permissions and the free space") from None
    return [out / path for path in written]


def _writer(to: str) -> Writer:
    writers: dict[str, Writer] = {
        "monai-bundle": write_bundle,
        "onnx": partial(_write_programs, write_onnx, ".onnx"),
        "pt2": partial(_write_programs, write_pt2, ".pt2"),
        "card": lambda parts, folder: {},
    }
    if to not in writers:
        raise FedSuperError(f"--to {to}: is not a known target; use one of {', '.join(writers)}")
    missing = [name for name in ONNX_PACKAGES if to == "onnx" and importlib.util.find_spec(name) is None]
    if missing:
        raise FedSuperError(f"--to onnx: needs {' and '.join(missing)}; install with pip install '.[onnx]'")
    return writers[to]


def _write_programs(write: ProgramWriter, suffix: str, parts: Parts, folder: Path) -> dict[str, str]:
    files = {}
    selector = parts.selector()
    for name in parts.experts:
        files[name] = parts.stem(name) + suffix
        write(parts.predictor, as_predicted(parts.predictor, name), folder / files[name], LOGITS)
    if selector is not None:
        files[SELECTOR] = parts.stem(SELECTOR) + suffix
        write(parts.predictor, selector, folder / files[SELECTOR], parts.choice())
    return files


def _digest(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
