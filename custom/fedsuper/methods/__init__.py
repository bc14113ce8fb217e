"""Every method of both papers, and some beside them, one file each. A new method is one file and one line here."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, cast

from fedsuper.errors import FedSuperError

if TYPE_CHECKING:
    from fedsuper.config import Strict, Study
    from fedsuper.methods.protocol.method import Method

# Names before classes: the study is checked against them without importing torch.
METHODS: dict[str, str] = {
    "centralized": "fedsuper.methods.centralized:Centralized",
    "local": "fedsuper.methods.local:Local",
    "fedavg": "fedsuper.methods.fedavg:FedAvg",
    "fedprox": "fedsuper.methods.fedprox:FedProx",
    "scaffold": "fedsuper.methods.scaffold:Scaffold",
    "fedopt": "fedsuper.methods.fedopt:FedOpt",
    "fedsm": "fedsuper.methods.fedsm:FedSM",
    "fedsm-extra": "fedsuper.methods.fedsm_extra:FedSMExtra",
    "fedsm-ensemble": "fedsuper.methods.fedsm_ensemble:FedSMEnsemble",
    "softpull": "fedsuper.methods.softpull:SoftPull",
    "ft": "fedsuper.methods.ft:FT",
    "apfl": "fedsuper.methods.apfl:APFL",
    "per-fedavg": "fedsuper.methods.per_fedavg:PerFedAvg",
    "pfedme": "fedsuper.methods.pfedme:PFedMe",
    "fedrep": "fedsuper.methods.fedrep:FedRep",
    "fedbn": "fedsuper.methods.fedbn:FedBN",
    "ditto": "fedsuper.methods.ditto:Ditto",
    "fedsoup": "fedsuper.methods.fedsoup:FedSoup",
    "iop-fl": "fedsuper.methods.iop_fl:IOPFL",
    "feddg": "fedsuper.methods.feddg:FedDG",
    "ttt": "fedsuper.methods.ttt:TTT",
}


def method_class(name: str) -> type[Method[Any]]:
    """The class behind a method's name."""
    if name not in METHODS:
        raise FedSuperError(f"method '{name}' is not known; known methods: {', '.join(METHODS)}")
    module, _, attribute = METHODS[name].partition(":")
    return cast("type[Method[Any]]", getattr(importlib.import_module(module), attribute))


def method_knobs(name: str) -> type[Strict]:
    """The knobs a study may set under a method's name."""
    return method_class(name).Knobs


def create_method(study: Study) -> Method[Any]:
    """The study's method, ready to run."""
    return method_class(study.method)(study)
