"""A super model as a MONAI bundle: `configs/` that MONAI's parser turns into the nets, `models/` with their weights.

MONAI's own `model.pt` is a pickle; here the configuration loads safetensors instead, and the selector, which is no net
of MONAI's, is a `torch.export` program. Names that come from outside (sites, the task) stay out of the configuration,
because the parser runs strings that begin with `$`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedsuper.core.state import clone
from fedsuper.core.supermodel import SELECTOR
from fedsuper.files import atomic_write_json
from fedsuper.inference.export.bundle_metadata import SCHEMA_FILE, metadata, metadata_schema
from fedsuper.inference.export.parts import Parts
from fedsuper.inference.export.programs import write_pt2
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.supermodel_manifest import SUFFIX

RUN = "fedsuper.inference.export.bundle_run.segment_folder"
LOADED = "$(@network_def.load_state_dict(@network_weights), @network_def.to(@device).eval())[1]"


def write_bundle(parts: Parts, folder: Path) -> dict[str, str]:
    """Fill the empty `folder`; returns each model's file. The first model is the bundle's default."""
    from safetensors.torch import save

    predictor = parts.predictor
    files = {name: f"models/{parts.stem(name)}{SUFFIX}" for name in parts.experts}
    (folder / "models").mkdir()
    for name, file in files.items():
        (folder / file).write_bytes(save(clone(predictor.experts[name]), {"format": "pt"}))
    selector = parts.selector()
    if selector is not None:
        files[SELECTOR] = f"models/{parts.stem(SELECTOR)}.pt2"
        write_pt2(predictor, selector, folder / files[SELECTOR], parts.choice())
    inference = _inference(predictor, parts.stem(parts.experts[0]), files.get(SELECTOR))
    atomic_write_json(folder / "configs" / "inference.json", inference)
    atomic_write_json(folder / "configs" / "metadata.json", metadata(predictor))
    atomic_write_json(folder / "configs" / SCHEMA_FILE, metadata_schema())
    return files


def _inference(predictor: Predictor, default: str, selector: str | None) -> dict[str, Any]:
    """`model` is the file, without ending, of the weights that `network` gets; `choose: false` makes `run` use it."""
    net = predictor.study.model
    path = f"$@bundle_root + '/models/' + @model + '{SUFFIX}'"
    config = {
        "bundle_root": ".",
        "dataset_dir": "$@bundle_root + '/images'",
        "output_dir": "$@bundle_root + '/eval'",
        "device": "$torch.device('cuda' if torch.cuda.is_available() else 'cpu')",
        "model": default,
        "choose": True,
        "network_def": {"_target_": net.target, **net.arguments(predictor.channels, len(predictor.task.regions))},
        "network_weights": {"_target_": "safetensors.torch.load_file", "filename": path},
        "network": LOADED,
    }
    run = {
        "_target_": RUN, "bundle_root": "@bundle_root", "network": "@network_def", "images": "@dataset_dir",
        "out": "@output_dir", "device": "@device", "model": "@model", "choose": "@choose",
    }
    if selector is not None:
        config[SELECTOR] = f"$torch.export.load(@bundle_root + '/{selector}').module()"
        run[SELECTOR] = f"@{SELECTOR}"
    return config | {"run": [run]}
