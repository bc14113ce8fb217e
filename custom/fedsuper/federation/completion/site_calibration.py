"""A site's part in completing the super model: sums over its training images, counts over its validation images."""

from __future__ import annotations

from dataclasses import asdict, replace

from fedsuper.config import Study
from fedsuper.core.discriminant import unpack_sums
from fedsuper.core.supermodel import PERSONAL, SuperModel
from fedsuper.data.prepared.samples import Samples
from fedsuper.federation.door.last_replies import CalibrateReply, CandidateTable, HandoverReply, MaskTable
from fedsuper.federation.message_schema import CalibrateRequest, HandoverRequest
from fedsuper.federation.messages import Message
from fedsuper.federation.outlet.declared import QUALITY, SUMS
from fedsuper.federation.outlet.noise import sums_noise
from fedsuper.federation.outlet.withholding import Withholding
from fedsuper.inference.masks.mask_measures import MaskTrial
from fedsuper.inference.selection.closed_form import sums_of, with_sums
from fedsuper.inference.selection.site_statistics import training_sums, validation_counts
from fedsuper.inference.trial import ValidationTrial
from fedsuper.methods import create_method
from fedsuper.train.device import Compute

# What a calibration may want.
COUNTS, GATE, MASKS = "counts", "gate", "masks"


def handed_over(
    super_model: SuperModel, study: Study, train: Samples, val: Samples, asked: HandoverRequest, may: Withholding
) -> Message:
    """The answer to the hand-over: the site's sums, and what the method calibrates of a selector that is there."""
    compute = Compute.from_config(study.compute)
    noised = study.selector.model_copy(update={"noise": sums_noise(study)})
    sums = training_sums(super_model, train, noised, compute) if may.enough(train.cases) else None
    trial = ValidationTrial(super_model, val, asked.label, compute)
    told = create_method(study).calibrate(trial) if may.figures(val.cases) else {}
    return HandoverReply(round=asked.round, calibration=told).message({} if sums is None else {SUMS: sums.to_state()})


def completed(super_model: SuperModel, message: Message, manifest: dict[str, object]) -> SuperModel:
    """The site's super model with what the server has chosen, collected or sent since."""
    more = {site: message.models[PERSONAL + site] for site in super_model.sites if PERSONAL + site in message.models}
    personal = {**super_model.personal, **more}
    found = replace(super_model, manifest=manifest, mode=str(manifest["mode"]), personal=personal)
    return with_sums(found, unpack_sums(message.models[SUMS])) if SUMS in message.models else found


def measured(
    super_model: SuperModel, study: Study, val: Samples, asked: CalibrateRequest, may: Withholding
) -> Message:
    """The answer to a calibration: counts of the candidates, what the method calibrates, or how good masks are.

    Nothing of too few patients; and where the sums of features are noisy, those of masks do not leave at all.
    """
    if not may.figures(val.cases):
        return CalibrateReply(round=asked.round).message()
    compute = Compute.from_config(study.compute)
    trial = ValidationTrial(super_model, val, asked.label, compute)
    if asked.wanted == MASKS:
        masks = MaskTrial(trial)
        found = None if sums_noise(study) > 0 else masks.quality_sums()
        table = MaskTable.model_validate(masks.measures())
        return CalibrateReply(round=asked.round, masks=table).message(
            {} if found is None else {QUALITY: found.to_state()})
    if asked.wanted == GATE:
        return CalibrateReply(round=asked.round, calibration=create_method(study).calibrate(trial)).message()
    sums = sums_of(super_model)
    counts = None if sums is None else validation_counts(super_model, sums, val, asked.label, compute)
    candidates = None if counts is None else CandidateTable(**asdict(counts))
    return CalibrateReply(round=asked.round, counts=candidates).message()
