"""Named models and plain JSON in one safetensors file: the form of every state and message on disk. No pickle.

One file is one atomic write: a checkpoint is there whole or not at all, and a torn one is recognized.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

import torch

from fedsuper.core.state import Models
from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write

SEPARATOR = "/"
PACKED, LONG = "zlib:", 4096  # plain values of more letters are packed: a history of many rounds says much the same


def flatten(models: Models) -> dict[str, torch.Tensor]:
    """{role: {entry: tensor}} to {role/entry: tensor}; entry names hold no slash, roles may."""
    return {f"{role}{SEPARATOR}{name}": tensor for role, state in models.items() for name, tensor in state.items()}


def unflatten(flat: dict[str, torch.Tensor]) -> Models:
    """The inverse of `flatten`."""
    models: Models = {}
    for key, tensor in flat.items():
        role, _, name = key.rpartition(SEPARATOR)
        models.setdefault(role, {})[name] = tensor
    return models


def save_models(path: Path, models: Models, values: dict[str, Any] | None = None) -> None:
    """Write models and values atomically; a digest of both is kept so that damage is noticed."""
    from safetensors.torch import save_file

    flat = apart({key: tensor.detach().cpu().contiguous() for key, tensor in flatten(models).items()})
    header = {"values": _packed(json.dumps(values or {}, allow_nan=False)), "roles": json.dumps(list(models))}
    header["digest"] = _whole_digest(flat, header)
    atomic_write(Path(path), lambda temporary: save_file(flat, temporary, metadata=header))


def load_models(path: Path) -> tuple[Models, dict[str, Any]]:
    """Read what `save_models` wrote; a missing, torn or altered file is one clear error."""
    flat, header = read_tensors(path)
    try:
        values = json.loads(_unpacked(header["values"]))
        roles = json.loads(header["roles"])
    except (KeyError, ValueError, zlib.error) as error:
        raise _torn(path, error) from None
    if _whole_digest(flat, header) != header.get("digest"):
        raise FedSuperError(f"{path}: its contents do not match its digest; remove it and resume from an older one")
    models = unflatten(flat)
    return {role: models.get(role, {}) for role in roles}, values


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """The tensors and the header of a file, whatever wrote it; a missing or torn one is one clear error."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}, file.metadata() or {}
    except FileNotFoundError:
        raise FedSuperError(f"{path}: no such checkpoint; check the path") from None
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise _torn(path, error) from None


def _torn(path: Path, error: Exception) -> FedSuperError:
    return FedSuperError(f"{path}: torn or not a FedSuper checkpoint ({' '.join(str(error).split())[:120]}); "
                         "remove it and resume from an older one")


def _packed(text: str) -> str:
    return text if len(text) <= LONG else PACKED + base64.b85encode(zlib.compress(text.encode())).decode()


def _unpacked(text: str) -> str:
    return text if not text.startswith(PACKED) else zlib.decompress(base64.b85decode(text[len(PACKED):])).decode()


def apart(flat: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same tensors, none of which shares memory: safetensors refuses those, so they, and only they, are copied."""
    seen: set[int] = set()
    for key, tensor in flat.items():
        place = tensor.untyped_storage().data_ptr()
        if place in seen or tensor.untyped_storage().nbytes() != tensor.nbytes:
            flat[key] = tensor.clone()
        seen.add(place)
    return flat


def _whole_digest(flat: dict[str, torch.Tensor], header: dict[str, str]) -> str:
    """SHA-256 over the tensors and the plain values beside them."""
    told = json.dumps([digest(flat), header["values"], header["roles"]])
    return hashlib.sha256(told.encode()).hexdigest()


def digest(flat: dict[str, torch.Tensor]) -> str:
    """SHA-256 over names, types, shapes and bytes in name order."""
    sha = hashlib.sha256()
    for name in sorted(flat):
        tensor = flat[name].contiguous()
        sha.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}".encode())
        sha.update(tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return sha.hexdigest()
