"""After the last round: the sites measure, the server chooses. Sums and counts travel, never an image's value.

The super model goes to every site. In up to five exchanges it gets

1. with the hand-over itself, the sites' feature sums, and what the method calibrates (a trained selector's gate); where
   there are more models than a site is to get (`shares`), the latter in an exchange of its own, with the nearest ones;
2. shrinkage, temperature and familiarity, from what every candidate is worth on validation images;
3. what the method calibrates with a closed-form selector: it has no probabilities before its shrinkage is chosen;
4. which selector and gate are used where the study leaves that open, which regions are cleaned of islands, and the
   estimate of a mask's quality, from every option's Dice on validation images.

This is the server's side; `site_calibration` is a site's. A site that does not answer stays unknown to the closed form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from fedsuper.config import SelectorConfig
from fedsuper.core.calibration import CandidateCounts, Choice, choose_candidate
from fedsuper.core.discriminant import pack_means, pack_sums
from fedsuper.core.feature_sums import FeatureSums, epsilon
from fedsuper.core.mode import GLOBAL, SELECT
from fedsuper.core.robust import towers
from fedsuper.core.state import Models
from fedsuper.core.supermodel import SuperModel
from fedsuper.core.validated.selection_choice import TRAINED
from fedsuper.federation.completion.last_choices import Measured, choices
from fedsuper.federation.completion.shares import Shares
from fedsuper.federation.completion.site_calibration import COUNTS, GATE, MASKS
from fedsuper.federation.door.last_replies import HandoverReply
from fedsuper.federation.messages import CALIBRATE, HANDOVER
from fedsuper.federation.outlet.declared import SUMS
from fedsuper.inference.selection.closed_form import is_closed_form, with_sums

DELTA = 1e-5  # of the Gaussian mechanism's epsilon that the manifest states
# Where no site could count on validation images: cautious, and without a word on familiarity.
UNCALIBRATED = Choice(0.1, 1.0, None, None, [])

# Sends each site its models and manifest with a word on what is wanted; the answers that were let in, in label order.
Tell = Callable[[str, SuperModel, Callable[[str], Models], str], Mapping[str, Any]]
Settle = Callable[[Mapping[str, dict[str, Any]]], dict[str, Any]]


class Calibration:
    """`shares` says which models a site gets; `settle` is the method's; `note` shows a line to the user."""

    def __init__(
        self, config: SelectorConfig, shares: Shares, tell: Tell, settle: Settle, note: Callable[[str], None]
    ) -> None:
        self.config = config
        self.shares = shares
        self.tell = tell
        self.settle = settle
        self.note = note

    def run(self, super_model: SuperModel) -> SuperModel:
        """Hand the super model over and complete it by what the sites answer."""
        answers: Mapping[str, tuple[HandoverReply, FeatureSums | None]] = self.tell(
            HANDOVER, super_model, self.shares.first, "")
        told = {site: reply.calibration for site, (reply, _) in answers.items()}
        sums = self._collect(super_model.sites, {site: sums for site, (_, sums) in answers.items() if sums})
        if self.shares.bounded:
            more: Mapping[str, Measured] = self.tell(
                CALIBRATE, super_model, lambda site: self.shares.next(site, sums), GATE)
            told = {site: reply.calibration for site, (reply, _) in more.items()}
        if not is_closed_form(super_model):
            super_model.manifest |= self.settle(told)
        if sums is not None:
            super_model = self._choose(super_model, sums, told)
        elif is_closed_form(super_model) and super_model.mode == SELECT:
            self.note("warning: no site sent feature sums; the super model has no selector and predicts globally")
            super_model.mode = super_model.manifest["mode"] = GLOBAL
        measured: Mapping[str, Measured] = self.tell(CALIBRATE, super_model, _nothing, MASKS)
        super_model.manifest |= choices(super_model.manifest, measured)
        return super_model

    def _choose(self, super_model: SuperModel, sums: list[FeatureSums], before: Mapping[str, Any]) -> SuperModel:
        packed = {SUMS: pack_means(sums) if self.shares.bounded else pack_sums(sums)}
        told: Mapping[str, Measured] = self.tell(CALIBRATE, super_model, lambda _: packed, COUNTS)
        counts = {site: CandidateCounts(**reply.counts.model_dump()) for site, (reply, _) in told.items()
                  if reply.counts}
        found = with_sums(super_model, sums, choose_candidate(counts) if counts else UNCALIBRATED)
        if self.config.noise > 0:
            found.manifest["statistics"] |= {"epsilon": epsilon(self.config.noise, DELTA), "delta": DELTA}
        if self.config.kind != TRAINED and found.mode == SELECT:
            gates: Mapping[str, Measured] = self.tell(CALIBRATE, found, _nothing, GATE)
            more = {site: reply.calibration for site, (reply, _) in gates.items()}
            found.manifest |= self.settle({site: before.get(site, {}) | more.get(site, {}) for site in found.sites})
        return found

    def _collect(self, sites: list[str], told: Mapping[str, FeatureSums]) -> list[FeatureSums] | None:
        """The sums in label order; a site whose sums are missing, or unlike those of the others, is passed over."""
        if not told:
            return None
        width = Counter(sums.width for sums in told.values()).most_common(1)[0][0]
        unlike = {site: f"{sums.width} features, the others {width}" for site, sums in told.items()
                  if sums.width != width}
        sizes = {site: abs(float(sums.outer.trace())) / sums.count for site, sums in told.items() if site not in unlike}
        unlike |= {site: f"features {ratio:.3g} times as large as the others'" for site, ratio in towers(sizes).items()}
        for site, what in unlike.items():
            self.note(f"warning: {site}: its feature sums are left out ({what})")
        nothing = FeatureSums.nothing(width)
        return [told[site] if site in told and site not in unlike else nothing for site in sites]


def _nothing(site: str) -> Models:
    """No model goes along."""
    return {}
