"""The nets of the product, by the names that a study gives them; each is a file and a line here."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from fedsuper.models.net import NetSettings
from fedsuper.schema import TOLD, first_problem

# `model.name`: the net's settings.
NETS = {
    "unet": "fedsuper.models.nets.unet:UNetSettings",
    "plain-unet": "fedsuper.models.nets.plain_unet:PlainUNetSettings",
    "attention-unet": "fedsuper.models.nets.attention_unet:AttentionUNetSettings",
}
# `selector.net`: the module; all are made with `channels` and `classes`.
SELECTORS = {
    "small": "fedsuper.models.selector_small.SmallSelector",
    "vgg11": "fedsuper.models.selector_vgg.VGG11Selector",
}
DEFAULT_NET = "unet"
# Studies written before nets had schemas of their own state these for every net; where a net has no such knob, they
# are true of it and say nothing.
SAY_NOTHING = {"strides": None, "residual_units": 0}


def settings_type(name: str) -> type[NetSettings]:
    """The schema of the net called `name`."""
    module, _, attribute = NETS[name].partition(":")
    found: type[NetSettings] = getattr(importlib.import_module(module), attribute)
    return found


def net_settings(raw: object) -> NetSettings:
    """A study's `model` section, checked by the net that it names; for use inside a schema's validation."""
    if isinstance(raw, NetSettings):
        return raw
    if not isinstance(raw, Mapping):
        raise _told(f"model: expected a section, for example {{name: unet}}, got {raw!r}")
    given: dict[str, Any] = dict(raw)
    name = given.setdefault("name", DEFAULT_NET)
    if not isinstance(name, str) or name not in NETS:
        raise _told(f"model.name: {name!r} is no net; known nets: {', '.join(NETS)}")
    kind = settings_type(name)
    knobs = sorted(set(kind.model_fields) - {"name"})
    for knob in [key for key in given if key != "name" and key not in knobs]:
        if knob not in SAY_NOTHING or given.pop(knob) != SAY_NOTHING[knob]:
            raise _told(f"model.{knob}: the net {name} has no such knob; it has {', '.join(knobs)}")
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise _told(first_problem(error, "model")) from None


def known_selector(name: str) -> str:
    """`name`, if it is a selector's."""
    if name not in SELECTORS:
        raise ValueError(f"is no selector net; known are {', '.join(SELECTORS)}")
    return name


def _told(text: str) -> PydanticCustomError:
    return PydanticCustomError(TOLD, "{text}", {"text": text})
