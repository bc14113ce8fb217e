"""Every way a super model can predict: one line per mode, one file behind it. Importing this list is cheap."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, cast

from fedsuper.core.mode import OWN
from fedsuper.errors import FedSuperError

if TYPE_CHECKING:
    from fedsuper.inference.modes.base import Mode

MODES: dict[str, str] = {
    "select": "fedsuper.inference.modes.select:Select",
    "select-all": "fedsuper.inference.modes.select_all:SelectAll",
    "mix": "fedsuper.inference.modes.mix:Mix",
    "global": "fedsuper.inference.modes.fixed:Global",
    "own": "fedsuper.inference.modes.fixed:Own",
    "ensemble": "fedsuper.inference.modes.ensemble:Ensemble",
    "agree": "fedsuper.inference.modes.agree:Agree",
    "route": "fedsuper.inference.modes.route:Route",
    "global-stats": "fedsuper.inference.modes.global_stats:GlobalStatistics",
    "tent": "fedsuper.inference.modes.tent:Tent",
    "ttt": "fedsuper.inference.modes.ttt:RotationTraining",
}
SITE_PREFIX = "site:"

# Numbers that only labels can tell, not masks: `evaluate` offers them, `predict` cannot.
AVERAGE, ORACLE = "average", "oracle"
SCORES = {AVERAGE: "the mean of the models' scores", ORACLE: "the score of the model that the label shows to be best"}


def predict_modes() -> list[str]:
    """What `predict` takes as a mode; `own` needs the site the images come from, which `site:NAME` says."""
    return [name for name in MODES if name != OWN] + [f"{SITE_PREFIX}NAME"]


def evaluate_modes() -> list[str]:
    """What `evaluate` takes as a mode: each site's images are known to be that site's, and labels are there."""
    return [*MODES, *SCORES, f"{SITE_PREFIX}NAME"]


def mode_class(name: str) -> type[Mode]:
    """The class behind a mode's name."""
    if name in SCORES:
        raise FedSuperError(f"mode {name} is {SCORES[name]}, a number and not a mask; "
                            "use it with evaluate, or --mode ensemble to predict")
    if name not in MODES:
        raise FedSuperError(f"mode '{name}' is not known; use one of {', '.join(MODES)} or {SITE_PREFIX}NAME")
    module, _, attribute = MODES[name].partition(":")
    return cast("type[Mode]", getattr(importlib.import_module(module), attribute))


def check_knobs(section: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A study's `modes` section, each mode's part checked by the mode itself; pydantic says what does not fit."""
    checked = {
        name: mode_class(name).Knobs.model_validate(knobs or {}).model_dump(mode="json", exclude_defaults=True)
        for name, knobs in section.items()
    }
    return {name: knobs for name, knobs in checked.items() if knobs}
