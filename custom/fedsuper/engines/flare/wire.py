"""Messages on NVFlare's wire: tensors under flat `role/entry` names, everything else as one JSON text in the meta data.

Tensors travel in their own type through NVFlare's tensor decomposer (safetensors inside), so a site computes with
exactly the bits the server holds; a flat dict is also what NVFlare's privacy filters expect. No pickle.
"""

from __future__ import annotations

import json

import torch
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType

from fedsuper.engines.messages import Message, SiteFailure
from fedsuper.train.checkpoint import flatten, unflatten

ENVELOPE = "fedsuper"


def pack(message: Message, current_round: int | None = None) -> FLModel:
    """A message as an FLModel."""
    tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in flatten(message.models).items()}
    return _model(tensors, {"roles": list(message.models), "info": message.info}, current_round)


def pack_failure(failure: SiteFailure) -> FLModel:
    """A site's refusal. An ordinary answer, because NVFlare's own error codes carry no reason."""
    return _model({}, {"failure": failure.reason})


def unpack(model: FLModel) -> Message | SiteFailure:
    """The inverse of `pack` and `pack_failure`; numpy arrays, which some privacy filters return, become tensors."""
    envelope = json.loads(model.meta[ENVELOPE])
    if "failure" in envelope:
        return SiteFailure(envelope["failure"])
    models = unflatten({key: torch.as_tensor(value) for key, value in (model.params or {}).items()})
    return Message({role: models.get(role, {}) for role in envelope["roles"]}, envelope["info"])


def _model(params: dict, envelope: dict, current_round: int | None = None) -> FLModel:
    meta = {ENVELOPE: json.dumps(envelope)}
    return FLModel(params_type=ParamsType.FULL, params=params, current_round=current_round, meta=meta)
