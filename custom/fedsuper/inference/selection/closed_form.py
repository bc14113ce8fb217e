"""What a super model knows of the sites' images in closed form: the sites' feature sums, and what follows from them.

With a closed-form selector (`selector.kind: statistics`) the sums stand in the selector's place; with another one, or
none, they are an extra of their own, so that every super model can tell an image unlike every site that trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fedsuper.core.calibration import Choice
from fedsuper.core.discriminant import Discriminant, discriminant, pack_sums, unpack_sums
from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.mode import WITH_GLOBAL_CLASS
from fedsuper.core.state import State
from fedsuper.core.supermodel import SuperModel
from fedsuper.core.validated.selection_choice import AUTO, THRESHOLD, TRAINED, Selection
from fedsuper.core.validated.usual_distance import REVIEW_BELOW
from fedsuper.errors import FedSuperError

STATISTICS = "statistics"


def is_closed_form(super_model: SuperModel) -> bool:
    """Whether its selector is the closed-form one; a selector that knows the global model as a class is trained."""
    study: dict[str, Any] = super_model.manifest.get("study", {})
    return study.get("selector", {}).get("kind") == STATISTICS and super_model.mode not in WITH_GLOBAL_CLASS


def selection_of(super_model: SuperModel) -> Selection:
    """The selector and the gate in force: what validation chose, else what the study names, else the paper's."""
    if super_model.mode in WITH_GLOBAL_CLASS:
        return Selection(TRAINED, THRESHOLD)
    named: dict[str, Any] = super_model.manifest.get("study", {}).get("selector", {})
    chosen: dict[str, Any] = super_model.manifest.get("selection") or {}
    kind, gate = (chosen.get(key) or named.get(key, AUTO) for key in ("kind", "gate"))
    return Selection(TRAINED if kind == AUTO else kind, THRESHOLD if gate == AUTO else gate)


def sums_of(super_model: SuperModel) -> list[FeatureSums] | None:
    """The sites' sums in label order."""
    state = super_model.selector if is_closed_form(super_model) else super_model.extras.get(STATISTICS)
    return None if state is None else unpack_sums(state)


def with_sums(super_model: SuperModel, sums: Sequence[FeatureSums], choice: Choice | None = None) -> SuperModel:
    """The same super model with these sums (in label order) and, once known, the choice made with them."""
    state: State = pack_sums(sums)
    manifest = super_model.manifest
    if choice is not None:
        manifest = manifest | {STATISTICS: vars(choice) | {"review_below": REVIEW_BELOW}}
    if is_closed_form(super_model):
        return replace(super_model, selector=state, manifest=manifest)
    return replace(super_model, extras=super_model.extras | {STATISTICS: state}, manifest=manifest)


def discriminant_of(super_model: SuperModel) -> Discriminant | None:
    """The discriminant with the chosen shrinkage and temperature; None before they are chosen."""
    sums, chosen = sums_of(super_model), super_model.manifest.get(STATISTICS)
    if sums is None or chosen is None:
        return None
    return discriminant(sums, float(chosen["shrinkage"]), float(chosen["temperature"]))


def required_discriminant(super_model: SuperModel) -> Discriminant:
    """The same where nothing can be done without it."""
    found = discriminant_of(super_model)
    if found is None:
        raise FedSuperError("super model: its closed-form selector has no sums or was never calibrated; "
                            "hand it over again from its run")
    return found
