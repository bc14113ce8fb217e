"""Messages on NVFlare's wire: tensors under flat `role/entry` names, everything else as one JSON text in the meta data.

Tensors travel in their own type through NVFlare's tensor decomposer (safetensors inside) or, between processes of one
machine, in files in memory, so a site computes with exactly the bits the server holds; a flat dict is also what
NVFlare's privacy filters expect. No pickle. A digest shows that no filter changed a message; where a job on one machine
has no filter it is not taken.

Importing this module makes the decomposer known to the process: done by NVFlare's own widget it would cost an entry on
every site's allow-list, and that widget loads any class a job names.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.fuel.utils import fobs

from fedsuper.engines.flare.contact.shared_tensors import decomposer
from fedsuper.engines.flare.settings import unfiltered
from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import Message, SiteFailure
from fedsuper.federation.outlet.audit import digest_of
from fedsuper.train.checkpoint import flatten, unflatten

ENVELOPE = "fedsuper"
CHANGED = ("the weights were changed on the way: a filter of NVFlare (percentile, SVT, quantization) is in between. It "
           "expects differences and spoils weights; take it out of the job and of the site's privacy.json, and use "
           "the study's section `privacy` instead")

fobs.register(decomposer())


def pack(message: Message, current_round: int | None = None) -> FLModel:
    """A message as an FLModel."""
    tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in flatten(message.models).items()}
    digest = message.digest or ("" if unfiltered() else digest_of(message)[1])
    envelope = {"roles": list(message.models), "info": message.info, "sha256": digest}
    return _model(tensors, envelope, current_round)


def pack_failure(failure: SiteFailure) -> FLModel:
    """A site's refusal. An ordinary answer, because NVFlare's own error codes carry no reason."""
    return _model({}, {"failure": failure.reason})


def unpack(model: FLModel) -> Message | SiteFailure:
    """The inverse of `pack` and `pack_failure`; what a filter has changed on the way is refused."""
    envelope = json.loads(model.meta[ENVELOPE])
    if "failure" in envelope:
        return SiteFailure(envelope["failure"])
    models = unflatten({key: torch.as_tensor(value) for key, value in (model.params or {}).items()})
    message = Message({role: models.get(role, {}) for role in envelope["roles"]}, envelope["info"], weight(model))
    if not unfiltered() and digest_of(message)[1] != envelope["sha256"]:
        raise FedSuperError(CHANGED)
    return message


def weight(model: FLModel) -> int:
    """The bytes of a packed message: its tensors as they travel, and the text beside them."""
    return sum(int(getattr(value, "nbytes", 0)) for value in (model.params or {}).values()) + len(model.meta[ENVELOPE])


def _model(params: dict[str, torch.Tensor], envelope: dict[str, Any], current_round: int | None = None) -> FLModel:
    meta = {ENVELOPE: json.dumps(envelope)}
    return FLModel(params_type=ParamsType.FULL, params=params, current_round=current_round, meta=meta)
