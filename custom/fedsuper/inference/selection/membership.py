"""Sites that come and go after training, without any: add a site's sums or take them away, nothing else changes.

The super model keeps every site's sums by itself, so what is left after one goes is, to the last bit, what would have
been there without it. Shrinkage, temperature and the validation images behind familiarity stay as the federation chose
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.mode import GLOBAL, SELECT
from fedsuper.core.state import State
from fedsuper.core.supermodel import SuperModel
from fedsuper.errors import FedSuperError
from fedsuper.inference.selection.closed_form import STATISTICS, is_closed_form, selection_of, sums_of, with_sums

# The threshold of a selector that was trained and is replaced by the closed form: it names a site it is surer of than
# of all others together.
EVEN_ODDS = 0.5


def join(
    super_model: SuperModel,
    site: str,
    sums: FeatureSums | None,
    expert: State | None = None,
    worth: Mapping[str, float] | None = None,
    images: int = 0,
) -> SuperModel:
    """The super model with one more site, last in label order.

    `expert` is its model; without one the global model serves it. Without sums it is never selected. A trained
    selector, which cannot learn a further class, gives way to the closed form. `worth` is the Dice there of every
    model, its own included, over `images` labeled images: its row of the expected-Dice gate's matrix.
    """
    check_can_join(super_model, site)
    model = expert or super_model.global_model
    if model is None:
        raise FedSuperError(f"{site}: this super model has no global model to serve a site without a model of its own")
    known = sums_of(super_model)
    selects = super_model.mode == SELECT
    if known is not None and sums is not None and sums.width != known[0].width:
        raise FedSuperError(f"{site}: {sums.width} features an image, the super model has {known[0].width}; "
                            "measure them with this super model")
    grown = replace(
        super_model,
        sites=[*super_model.sites, site],
        personal={**super_model.personal, site: model},
        manifest=_noted(super_model, {"joined": site, "images": 0 if sums is None else sums.count}),
    )
    _extend(grown.manifest.get("utility"), site, None if expert is None else worth, images)
    if selects and not is_closed_form(super_model):
        grown = _closed(grown)
    if known is None:
        return grown
    return with_sums(grown, [*known, sums or FeatureSums.nothing(known[0].width)])


def check_can_join(super_model: SuperModel, site: str) -> None:
    """Refuse, before any work, a site that this super model cannot take in."""
    if site in super_model.sites:
        raise FedSuperError(f"{site}: this super model has a site of that name; rename the folder, or remove the site")
    if super_model.mode == SELECT and sums_of(super_model) is None:
        raise FedSuperError(f"{site}: cannot join a super model that keeps no feature sums and selects by a trained "
                            "selector; train the federation again with this version")


def leave(super_model: SuperModel, site: str) -> SuperModel:
    """The super model without a site: its model, its sums and, with a closed-form selector, its class are gone.

    What its images taught the global model, the other sites' models and a trained selector is not undone. A trained
    selector keeps its output for the site; without a model it can no longer be chosen.
    """
    if site not in super_model.sites:
        raise FedSuperError(f"{site}: this super model knows no such site; it has {', '.join(super_model.sites)}")
    index, known = super_model.sites.index(site), sums_of(super_model)
    trained = super_model.selector is not None and not is_closed_form(super_model)
    if len(super_model.personal) == 1 and super_model.global_model is None:
        raise FedSuperError(f"{site}: is the last model of this super model; there is nothing to keep without it")
    personal = {name: state for name, state in super_model.personal.items() if name != site}
    sites = list(super_model.sites) if trained else [name for name in super_model.sites if name != site]
    shrunk = replace(super_model, sites=sites, personal=personal, manifest=_noted(super_model, {"left": site}))
    if known is None:
        return shrunk
    rest = [FeatureSums.nothing(each.width) if k == index else each for k, each in enumerate(known)]
    return with_sums(shrunk, rest if trained else [each for k, each in enumerate(rest) if k != index])


def _noted(super_model: SuperModel, event: dict[str, Any]) -> dict[str, Any]:
    """The manifest with the event, and without the leaver's row of expected Dice."""
    manifest = deepcopy(super_model.manifest)
    manifest["membership"] = [*manifest.get("membership", []), event]
    utility = manifest.get("utility")
    if utility and "left" in event:
        place = utility["experts"].index(event["left"]) if event["left"] in utility["experts"] else None
        for table in (utility["dice"], utility["images"]):
            table.pop(event["left"], None)
        if place is not None:
            utility["experts"].pop(place)
            for row in utility["dice"].values():
                row.pop(place)
    return manifest


def _extend(utility: dict[str, Any] | None, site: str, worth: Mapping[str, float] | None, images: int) -> None:
    """One more row and column of expected Dice.

    Nobody knows what the newcomer's model is worth elsewhere (None). Without a model of its own it is the global one,
    everywhere.
    """
    if utility is None:
        return
    experts = utility["experts"]
    place = experts.index(GLOBAL) if worth is None and GLOBAL in experts else None
    for row in utility["dice"].values():
        row.append(None if place is None else row[place])
    experts.append(site)
    if worth is not None:
        utility["dice"][site] = [worth[name] for name in experts]
        utility["images"][site] = images


def _closed(super_model: SuperModel) -> SuperModel:
    """The same super model with the closed-form selector in the trained one's place."""
    manifest = super_model.manifest
    study, before = manifest["study"], selection_of(super_model)
    manifest["study"] = study | {"selector": study.get("selector", {}) | {"kind": STATISTICS, "gate": before.gate}}
    own = manifest.pop("selectors", {}).get(STATISTICS, {})
    manifest.pop("selection", None)
    if before.kind != STATISTICS:  # gamma and temperature were another selector's
        manifest["gamma"] = EVEN_ODDS if own.get("gamma") is None else own["gamma"]
        if manifest.get("utility") and own.get("temperature") is not None:
            manifest["utility"]["temperature"] = own["temperature"]
    extras = {name: state for name, state in super_model.extras.items() if name != STATISTICS}
    return replace(super_model, selector=None, extras=extras, manifest=manifest)
