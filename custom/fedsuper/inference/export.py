"""A super model for other tools: every net as a program of its own (pt2, onnx) or all of them as a MONAI bundle.

Each export is a folder with one file per net and `export.json`, which says how the nets are put to work: the task, the
preprocessing, the selector's classes, gamma and the mode. The folder appears whole or not at all.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedsuper import __version__
from fedsuper.core.supermodel import GLOBAL
from fedsuper.data.draft_folder import draft_beside
from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write_json
from fedsuper.inference.artefact import PERSONAL, SELECTOR, SUFFIX, load_super_model, read_manifest
from fedsuper.inference.export_bundle import write_bundle
from fedsuper.inference.modes import DEFAULT_GAMMA
from fedsuper.inference.predictor import Predictor
from fedsuper.train.device import Compute

DESCRIPTION = "export.json"
THRESHOLD = 0.5  # a pixel lies in a region where sigmoid(logit) reaches it
ONNX_PACKAGES = ("onnx", "onnxscript")

# Nets and their file names without ending, by the super model's keys: global, personal/SITE, selector.
Nets = dict[str, nn.Module]
Stems = dict[str, str]
# Puts the nets into an empty folder and returns each one's file, relative to that folder.
Writer = Callable[[Predictor, Nets, Stems, Path], dict[str, str]]


def export(folder: Path, to: str, out: Path) -> list[Path]:
    """Write the super model in `folder` to the new or empty folder `out` as `to`; return the files written."""
    writer = _writer(to)
    out = Path(out).resolve()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FedSuperError(f"--out {out}: already holds something; name a new or an empty folder")
    # Programs are traced on the CPU in float32, whatever the study trained on: they must run everywhere.
    predictor = Predictor(load_super_model(folder), Compute(torch.device("cpu")))
    nets = _nets(predictor)
    stems = {key: entry["name"].removesuffix(SUFFIX) for key, entry in read_manifest(folder)["files"].items()}
    try:
        with draft_beside(out) as draft:
            files = writer(predictor, nets, stems, draft)
            atomic_write_json(draft / DESCRIPTION, describe(predictor, files))
            written = sorted(path.relative_to(draft) for path in draft.rglob("*") if path.is_file())
            os.replace(draft, out)
    except OSError as error:
        raise FedSuperError(f"--out {out}: cannot be written ({error.strerror or error}); "
                            "check its permissions and the free space") from None
    return [out / path for path in written]


def describe(predictor: Predictor, files: dict[str, str]) -> dict[str, Any]:
    """Which file holds which net, and all that another tool needs besides the nets, as plain JSON."""
    super_model, task = predictor.super_model, predictor.task
    gamma = super_model.manifest.get("gamma")
    return {
        "fedsuper": __version__,
        "torch": str(torch.__version__),
        "method": predictor.study.method,
        "task": task.name,
        "channels": task.channels,
        "regions": {region: list(values) for region, values in task.regions.items()},
        "image_size": predictor.study.image_size,
        "preprocess": predictor.preprocess.to_json(),
        "input": ["batch", predictor.channels, predictor.study.image_size, predictor.study.image_size],
        "output": "logits",
        "threshold": THRESHOLD,
        "mode": super_model.mode,
        "sites": super_model.sites,
        "models": {key.removeprefix(PERSONAL): file for key, file in files.items() if key != SELECTOR},
        "selector": files.get(SELECTOR),
        "selector_classes": predictor.classes if super_model.selector is not None else None,
        "gamma": (DEFAULT_GAMMA if gamma is None else gamma) if super_model.selector is not None else None,
    }


def _writer(to: str) -> Writer:
    writers: dict[str, Writer] = {"monai-bundle": write_bundle, "onnx": _write_onnx, "pt2": _write_pt2}
    if to not in writers:
        raise FedSuperError(f"--to {to}: is not a known target; use one of {', '.join(writers)}")
    missing = [name for name in ONNX_PACKAGES if to == "onnx" and importlib.util.find_spec(name) is None]
    if missing:
        raise FedSuperError(f"--to onnx: needs {' and '.join(missing)}; install with pip install '.[onnx]'")
    return writers[to]


def _nets(predictor: Predictor) -> Nets:
    nets = {name if name == GLOBAL else PERSONAL + name: predictor.build(name) for name in predictor.experts}
    if predictor.super_model.selector is not None:
        nets[SELECTOR] = predictor.selector()
    return nets


def _write_pt2(predictor: Predictor, nets: Nets, stems: Stems, folder: Path) -> dict[str, str]:
    files = {key: f"{stems[key]}.pt2" for key in nets}
    for key, net in nets.items():
        program = _trace(predictor, net)
        # The file is raw tensors and JSON, but for the example input, which torch would pickle.
        program.example_inputs = None
        torch.export.save(program, folder / files[key])
    return files


def _write_onnx(predictor: Predictor, nets: Nets, stems: Stems, folder: Path) -> dict[str, str]:
    # It would say for every net that torchvision, whose operators no net here has, is not installed.
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)
    files = {key: f"{stems[key]}.onnx" for key in nets}
    for key, net in nets.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            torch.onnx.export(
                _trace(predictor, net), f=folder / files[key], input_names=["image"], output_names=["logits"],
                external_data=False, verbose=False,
            )
    return files


def _trace(predictor: Predictor, net: nn.Module) -> torch.export.ExportedProgram:
    """The net as a graph for any number of slices; an example of one slice would fix the number at one."""
    size = predictor.study.image_size
    example = torch.zeros(2, predictor.channels, size, size)
    return torch.export.export(net, (example,), dynamic_shapes=({0: torch.export.Dim("batch")},))
