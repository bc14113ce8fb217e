"""FedSM (Xu et al., CVPR 2022), Algorithms 1 and 2: a global model, a personalized model per site and a selector.

Per round, on the same batches: w_{g,k} and w_{p,k} take optimizer steps on the Dice loss, w_s learns which site an
image is from (Eq. 2). At the server: w_g <- sum_k n_k/n w_{g,k} (line 15), w_{p,k} <- SoftPull (Eq. 11, line 16).
Inference: q = softmax(f_s(x)); the model of site argmax q where max q > gamma, else the global one (Algorithm 2).

`personal` takes another personalization in SoftPull's place (Table 6), with the knobs of its own section. FT and
APFL grow from FedAvg's model; Per-FedAvg and pFedMe need an averaged model of their own, which travels beside the
global one.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedsuper.config import Strict, Study
from fedsuper.methods.apfl import APFL
from fedsuper.methods.base import Composite, Method
from fedsuper.methods.fedavg import FedAvg
from fedsuper.methods.ft import FT
from fedsuper.methods.iop_fl import IOPFL
from fedsuper.methods.per_fedavg import PerFedAvg
from fedsuper.methods.pfedme import PFedMe
from fedsuper.methods.selector import Selector
from fedsuper.methods.softpull import SoftPull

META = "meta"


class SuperKnobs(Strict):
    """`lambda` .7 is the paper's choice for retina, .3 for prostate; it is SoftPull's alone."""

    lam: float = Field(0.7, ge=0, le=1, alias="lambda")
    personal: Literal["softpull", "ft", "apfl", "iop-fl", "per-fedavg", "pfedme"] = "softpull"


class FedSMKnobs(SuperKnobs):
    """`gamma: auto` is chosen on the sites' validation data."""

    gamma: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] = "auto"


def global_and_personal(study: Study, knobs: SuperKnobs) -> list[Method]:
    """FedAvg's global model and a personalized model per site."""
    if knobs.personal == "softpull":
        return [FedAvg(study), SoftPull(study, knobs.lam)]
    if knobs.personal == "per-fedavg":
        return [FedAvg(study), PerFedAvg(study, META)]
    if knobs.personal == "pfedme":
        return [FedAvg(study), PFedMe(study, META)]
    grown = {"ft": FT, "apfl": APFL, "iop-fl": IOPFL}  # from FedAvg's own model, which they bring along
    return [grown[knobs.personal](study)]


class FedSM(Composite):
    """Three independent models per site that share one epoch loop."""

    name = "fedsm"
    paper = "FedSM Algorithms 1 and 2"
    travels = "2w + s down, 2w + s up (w + s with personal ft, apfl, iop-fl)"
    mode = "select"
    Knobs = FedSMKnobs

    def compose(self) -> list[Method]:
        return [*global_and_personal(self.study, self.knobs), Selector(self.study)]
