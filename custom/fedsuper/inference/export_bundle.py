"""A super model as a MONAI bundle: `configs/` that MONAI's parser turns into the nets, `models/` with safetensors.

MONAI's own `model.pt` is a pickle; here the configuration loads safetensors instead. Names that come from outside
(sites, the task) stay out of the configuration, because the parser runs strings that begin with `$`.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

from torch import nn

from fedsuper import __version__
from fedsuper.core.state import clone
from fedsuper.files import atomic_write_json
from fedsuper.inference.artefact import SELECTOR, SUFFIX
from fedsuper.inference.predictor import Predictor

SCHEMA = "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/meta_schema_20220324.json"
LOADED = "$(@{net}_def.load_state_dict(@{net}_weights), @{net}_def.to(@device).eval())[1]"


def write_bundle(
    predictor: Predictor, nets: dict[str, nn.Module], stems: dict[str, str], folder: Path
) -> dict[str, str]:
    """Fill the empty `folder`; returns each net's weights file. The first net is the bundle's default `model`."""
    from safetensors.torch import save

    files = {key: f"models/{stems[key]}{SUFFIX}" for key in nets}
    (folder / "models").mkdir()
    for key, net in nets.items():
        (folder / files[key]).write_bytes(save(clone(net.state_dict()), {"format": "pt"}))
    inference = _inference(predictor, stems[next(iter(nets))])
    if SELECTOR in nets:
        inference |= _selector(predictor, stems[SELECTOR])
    atomic_write_json(folder / "configs" / "inference.json", inference)
    atomic_write_json(folder / "configs" / "metadata.json", _metadata(predictor))
    return files


def _inference(predictor: Predictor, default: str) -> dict[str, Any]:
    """`model` is the file, without ending, of the weights that `network` gets."""
    return {
        "bundle_root": ".",
        "device": "$torch.device('cuda' if torch.cuda.is_available() else 'cpu')",
        "model": default,
        "network_def": _network(predictor),
        "network_weights": _weights("@model"),
        "network": LOADED.format(net="network"),
    }


def _selector(predictor: Predictor, stem: str) -> dict[str, Any]:
    nets = {"small": "selector_small.SmallSelector", "vgg11": "selector_vgg.VGG11Selector"}
    target = f"fedsuper.models.{nets[predictor.study.selector.net]}"
    return {
        "selector_def": {"_target_": target, "channels": predictor.channels, "classes": len(predictor.classes)},
        "selector_weights": _weights(f"'{stem}'"),
        "selector": LOADED.format(net="selector"),
    }


def _weights(stem: str) -> dict[str, str]:
    path = f"$@bundle_root + '/models/' + {stem} + '{SUFFIX}'"
    return {"_target_": "safetensors.torch.load_file", "filename": path}


def _network(predictor: Predictor) -> dict[str, Any]:
    """The segmentation net of `fedsuper.models.build`, in MONAI's configuration language."""
    config, inputs, outputs = predictor.study.model, predictor.channels, len(predictor.task.regions)
    channels = list(config.channels)
    if config.name == "plain-unet":
        return {"_target_": "fedsuper.models.plain_unet.PlainUNet", "inputs": inputs, "outputs": outputs,
                "channels": channels, "norm": config.norm}
    return {
        "_target_": "UNet",
        "spatial_dims": 2,
        "in_channels": inputs,
        "out_channels": outputs,
        "channels": channels,
        "strides": list(config.strides or (2,) * (len(channels) - 1)),
        "num_res_units": config.residual_units,
        "norm": config.norm,
    }


def _metadata(predictor: Predictor) -> dict[str, Any]:
    needed = {"safetensors": importlib.metadata.version("safetensors")}
    if predictor.study.model.name == "plain-unet":
        needed["fedsuper"] = __version__
    return {
        "schema": SCHEMA,
        "version": __version__,
        "changelog": {__version__: "exported by FedSuper"},
        "monai_version": importlib.metadata.version("monai"),
        "pytorch_version": importlib.metadata.version("torch"),
        "numpy_version": importlib.metadata.version("numpy"),
        "required_packages_version": needed,
        "name": "FedSuper super model",
        "task": f"FedSuper: segmentation of {', '.join(predictor.task.regions)}",
        "description": f"Models trained in a federation by {predictor.study.method}; export.json says how to use them.",
        "authors": "the federation's sites",
        "copyright": "the federation's sites",
        "network_data_format": {
            "inputs": {"image": _planes(predictor, "magnitude", [f"plane {i}" for i in range(predictor.channels)])},
            "outputs": {"pred": _planes(predictor, "segmentation", [f"logit of {r}" for r in predictor.task.regions])},
        },
    }


def _planes(predictor: Predictor, kind: str, channels: list[str]) -> dict[str, Any]:
    return {
        "type": "image",
        "format": kind,
        "num_channels": len(channels),
        "spatial_shape": [predictor.study.image_size] * 2,
        "dtype": "float32",
        "value_range": [],
        "is_patch_data": False,
        "channel_def": {str(index): text for index, text in enumerate(channels)},
    }
