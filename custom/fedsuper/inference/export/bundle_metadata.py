"""`metadata.json` of a MONAI bundle, and a schema of it that needs no network to be read.

MONAI's `verify_metadata` fetches the schema that the metadata names, unless the file it is told to keep it in is there
already. MONAI's own file is not among the things an export may copy; this schema says what MONAI's bundle specification
says in words: which keys there must be and what each holds.
"""

from __future__ import annotations

import importlib.metadata
from typing import Any

from fedsuper import __version__
from fedsuper.inference.predictor import Predictor

SCHEMA = "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/meta_schema_20240725.json"
SCHEMA_FILE = "metadata.schema.json"
VERSIONS = {"monai_version": "monai", "pytorch_version": "torch", "numpy_version": "numpy"}
WORDS = ("version", "task", "description", "authors", "copyright", "intended_use")


def metadata(predictor: Predictor) -> dict[str, Any]:
    """What MONAI wants to know of the bundle."""
    method, regions = predictor.study.method, predictor.task.regions
    return {
        "schema": SCHEMA,
        "version": __version__,
        "changelog": {__version__: "exported by FedSuper"},
        **{key: importlib.metadata.version(name) for key, name in VERSIONS.items()},
        "required_packages_version": {
            "safetensors": importlib.metadata.version("safetensors"), "fedsuper": __version__,
        },
        "name": "FedSuper super model",
        "task": f"FedSuper: segmentation of {', '.join(regions)}",
        "description": f"Models trained in a federation by {method}; export.json says how to use them.",
        "authors": "the federation's sites",
        "copyright": "the federation's sites",
        "intended_use": "Research; MODEL_CARD.md says what was measured and what is unknown.",
        "network_data_format": {
            "inputs": {"image": _planes(predictor, "magnitude", [f"plane {i}" for i in range(predictor.channels)])},
            "outputs": {"pred": _planes(predictor, "classes", [f"logit of {region}" for region in regions])},
        },
    }


def metadata_schema() -> dict[str, Any]:
    """JSON Schema of `metadata.json`, after the MONAI Bundle Specification."""
    text: dict[str, Any] = {"type": "string", "minLength": 1}
    versions = {"type": "object", "additionalProperties": {"type": "string"}}
    tensors = {"type": "object", "minProperties": 1, "additionalProperties": {"$ref": "#/definitions/tensor"}}
    properties = {key: text for key in (*WORDS, *VERSIONS)} | {
        "required_packages_version": versions,
        "schema": text | {"format": "uri"},
        "changelog": versions,
        "network_data_format": {
            "type": "object",
            "properties": {"inputs": tensors, "outputs": tensors},
            "required": ["inputs", "outputs"],
        },
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "metadata.json of a MONAI bundle",
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "definitions": {"tensor": _tensor_schema()},
    }


def _tensor_schema() -> dict[str, Any]:
    properties: dict[str, Any] = {
        "type": {"enum": ["image", "series", "tuples", "probabilities"]},
        "format": {"type": "string", "minLength": 1},
        "modality": {"type": "string"},
        "num_channels": {"type": "integer", "minimum": 1},
        "spatial_shape": {"type": "array", "minItems": 1, "items": {"type": ["integer", "string"], "minimum": 1}},
        "dtype": {"enum": ["float16", "float32", "float64", "uint8", "int32", "int64"]},
        "value_range": {"type": "array", "items": {"type": "number"}, "maxItems": 2},
        "is_patch_data": {"type": "boolean"},
        "channel_def": {"type": "object", "minProperties": 1, "propertyNames": {"pattern": "^[0-9]+$"},
                        "additionalProperties": {"type": "string"}},
    }
    return {"type": "object", "properties": properties, "required": sorted(set(properties) - {"modality"})}


def _planes(predictor: Predictor, kind: str, channels: list[str]) -> dict[str, Any]:
    return {
        "type": "image",
        "format": kind,
        "modality": "n/a",
        "num_channels": len(channels),
        "spatial_shape": [predictor.study.image_size] * 2,
        "dtype": "float32",
        "value_range": [],
        "is_patch_data": False,
        "channel_def": {str(index): text for index, text in enumerate(channels)},
    }
