"""FedSM (Xu et al., CVPR 2022), Algorithms 1 and 2: a global model, a personalized model per site and a selector.

Per round, on the same batches: w_{g,k} and w_{p,k} take optimizer steps on the Dice loss, w_s learns which site an
image is from (Eq. 2). At the server: w_g <- sum_k n_k/n w_{g,k} (line 15), w_{p,k} <- SoftPull (Eq. 11, line 16).
With `selector.kind: statistics` there is no w_s: the sites send sums of image features once, after the last round.
Inference: q = softmax(f_s(x)); the model of site argmax q where max q > gamma, else the global one (Algorithm 2).

`personal` takes another personalization in SoftPull's place (Table 6), with the knobs of its own section. FT and
APFL grow from FedAvg's model; Per-FedAvg and pFedMe need an averaged model of their own, which travels beside the
global one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from fedsuper.config import Strict, Study
from fedsuper.core.expected_dice import UtilityRow, choose_utility
from fedsuper.core.mode import SELECT
from fedsuper.core.supermodel import SuperModel
from fedsuper.core.validated.gamma_choice import GammaCurve, choose_gamma
from fedsuper.core.validated.selection_choice import STATISTICS, THRESHOLD, kinds_of
from fedsuper.methods.apfl import APFL
from fedsuper.methods.fedavg import FedAvg
from fedsuper.methods.ft import FT
from fedsuper.methods.iop_fl import IOPFL
from fedsuper.methods.parts import own_choice
from fedsuper.methods.parts.composite import Composite
from fedsuper.methods.parts.own_pull import OwnPull, with_shares
from fedsuper.methods.parts.selector import Selector
from fedsuper.methods.per_fedavg import PerFedAvg
from fedsuper.methods.pfedme import PFedMe
from fedsuper.methods.protocol.calibration import Trial
from fedsuper.methods.protocol.method import Method
from fedsuper.methods.protocol.phases import Phase
from fedsuper.methods.protocol.server import Server
from fedsuper.methods.softpull import SoftPull

META = "meta"


class SuperKnobs(Strict):
    """`lambda` .7 is the paper's choice for retina, .3 for prostate; it is SoftPull's alone.

    `lambda: auto` leaves it to every site's validation images, round by round.
    """

    lam: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] = Field(0.7, alias="lambda")
    personal: Literal["softpull", "ft", "apfl", "iop-fl", "per-fedavg", "pfedme"] = "softpull"


class FedSMKnobs(SuperKnobs):
    """`gamma: auto` is chosen on the sites' validation data.

    `personal: auto` is SoftPull, after which every site takes one of its candidates; `fine_tune` is how many epochs two
    of them are trained at home.
    """

    personal: Literal["softpull", "ft", "apfl", "iop-fl", "per-fedavg", "pfedme", "auto"] = "softpull"  # type: ignore[assignment]
    fine_tune: int = Field(10, ge=1)
    gamma: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] = "auto"


class SelectorMeasures(Strict):
    """What a site tells of a selector on its validation images."""

    gamma: GammaCurve | None = None
    utility: UtilityRow | None = None


class SelectionMeasures(SelectorMeasures):
    """The study's selector, the trained one where it is to choose; beside it the others that it may choose."""

    statistics: SelectorMeasures | None = None
    both: SelectorMeasures | None = None


def global_and_personal(study: Study, knobs: SuperKnobs) -> list[Method[Any]]:
    """FedAvg's global model and a personalized model per site."""
    if knobs.personal in ("softpull", "auto"):
        return [FedAvg(study), OwnPull(study) if knobs.lam == "auto" else SoftPull(study, knobs.lam)]
    if knobs.personal == "per-fedavg":
        return [FedAvg(study), PerFedAvg(study, META)]
    if knobs.personal == "pfedme":
        return [FedAvg(study), PFedMe(study, META)]
    # These grow from FedAvg's own model, which they bring along.
    grown: dict[str, type[Method[Any]]] = {"ft": FT, "apfl": APFL, "iop-fl": IOPFL}
    return [grown[knobs.personal](study)]


class FedSM(Composite[FedSMKnobs]):
    """Three independent models per site that share one epoch loop."""

    name = "fedsm"
    paper = "FedSM Algorithms 1 and 2"
    travels = "2w + s down, 2w + s up (w + s with personal ft, apfl, iop-fl)"
    mode = SELECT
    Knobs = FedSMKnobs
    Calibration = SelectionMeasures

    def compose(self) -> list[Method[Any]]:
        trained = [] if self.study.selector.kind == STATISTICS else [Selector(self.study)]
        return [*global_and_personal(self.study, self.knobs), *trained]

    def phases(self) -> Sequence[Phase]:
        return (*super().phases(), *own_choice.PHASES) if self.knobs.personal == "auto" else super().phases()

    def during(self, phase: str) -> Method[Any]:
        return own_choice.acting(phase, self, self.knobs.fine_tune)

    def super_model(self, server: Server) -> SuperModel:
        whole = with_shares(super().super_model(server), server)
        return own_choice.with_choices(whole, server) if self.knobs.personal == "auto" else whole

    def calibrate(self, trial: Trial) -> dict[str, Any]:
        told: dict[str, Any] = {}
        for kind in trial.kinds():
            matrix = {} if self.study.selector.gate == THRESHOLD else {"utility": trial.utility_row(kind)}
            measured = {"gamma": trial.gamma_curve(kind), **matrix}
            told |= measured if kind == self._first_kind else {kind: measured}
        return told

    def settle(self, told: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        """One gamma for all sites and the curve it was read from; the matrix of expected Dice where it is wanted.

        Where there are several selectors, `selectors` has the same of each: which is used is chosen later.
        """
        found = self._settle_one(told)
        others = {kind: self._settle_one({site: answer[kind] for site, answer in told.items() if answer.get(kind)})
                  for kind in kinds_of(self.study.selector.kind)[1:]}
        known = {self._first_kind: found} | {kind: one for kind, one in others.items() if one}
        settings = {kind: {"gamma": one.get("gamma"), "gamma_curve": one.get("gamma_curve"),
                           "temperature": one.get("utility", {}).get("temperature")} for kind, one in known.items()}
        return found | ({"selectors": settings} if len(known) > 1 else {})

    @property
    def _first_kind(self) -> str:
        return kinds_of(self.study.selector.kind)[0]

    def _settle_one(self, told: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        curves = {site: answer["gamma"] for site, answer in told.items() if answer.get("gamma")}
        rows = {site: answer["utility"] for site, answer in told.items() if answer.get("utility")}
        chosen = choose_gamma(curves, self.knobs.gamma) if curves else {}
        return chosen | ({"utility": choose_utility(rows)} if rows else {})
