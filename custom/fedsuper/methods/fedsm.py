"""FedSM (Xu et al., CVPR 2022), Algorithms 1 and 2: a global model, a personalized model per site and a selector.

Per round, on the same batches: w_{g,k} and w_{p,k} take optimizer steps on the Dice loss, w_s learns which site an
image is from (Eq. 2). At the server: w_g <- sum_k n_k/n w_{g,k} (line 15), w_{p,k} <- SoftPull (Eq. 11, line 16).
Inference: q = softmax(f_s(x)); the model of site argmax q where max q > gamma, else the global one (Algorithm 2).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedsuper.config import Strict
from fedsuper.methods.base import Composite, Method
from fedsuper.methods.fedavg import FedAvg
from fedsuper.methods.selector import Selector
from fedsuper.methods.softpull import SoftPull


class FedSMKnobs(Strict):
    """`lambda` .7 is the paper's choice for retina, .3 for prostate; `gamma: auto` is chosen on validation data."""

    lam: float = Field(0.7, ge=0, le=1, alias="lambda")
    personal: Literal["softpull"] = "softpull"
    gamma: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] = "auto"


class FedSM(Composite):
    """Three independent models per site that share one epoch loop."""

    name = "fedsm"
    paper = "FedSM Algorithms 1 and 2"
    travels = "2w + s down, 2w + s up"
    mode = "select"
    Knobs = FedSMKnobs

    def compose(self) -> list[Method]:
        return [FedAvg(self.study), SoftPull(self.study, self.knobs.lam), Selector(self.study)]
