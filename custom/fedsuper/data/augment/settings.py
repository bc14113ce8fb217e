"""How far a sample may be varied: one schema for the study, which is checked, and for the code, which follows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, StrictBool, ValidationError, model_serializer, model_validator
from pydantic_core import PydanticCustomError

from fedsuper.schema import TOLD, Strict, first_problem

# What `augment: strong` means; `light` is every field's default. Parts that a task has no use for stay off there.
STRONG: dict[str, Any] = {
    "rotation": 30.0,
    "scale": 0.25,
    "elastic": 0.03,
    "blur": 1.0,
    "sharpen": 1.0,
    "low_resolution": 1.0,
    "bias_field": 0.4,
    "illumination": 0.4,
    "gamma": 0.4,
    "brightness": 0.4,
    "contrast": 0.4,
    "color": 0.2,
    "intensity": 0.3,
    "noise": 0.15,
}
ROLES = ("global", "personal", "selector")
SEGMENTING = ("global", "personal")
PRESETS: dict[str, dict[str, Any]] = {"light": {}, "strong": STRONG}


class AugmentSettings(Strict):
    """Random changes of a training batch; zero (or false) switches one off. A preset's name stands for its values.

    `rotation` in degrees, `scale` and `elastic` as fractions of the size, `intensity`, `brightness`, `illumination` and
    `noise` in units of the sample's own standard deviation; `blur` and `low_resolution` are shares of the way to a
    blurred and to a coarser image. Each part is explained where it is computed, in `spatial.py` and `intensity.py`.
    """

    flip: StrictBool = True
    flip_vertical: StrictBool = False
    rotation: float = Field(15.0, ge=0, le=180)
    scale: float = Field(0.1, ge=0, le=0.9)
    elastic: float = Field(0.0, ge=0, le=0.1)
    blur: float = Field(0.0, ge=0, le=1)
    sharpen: float = Field(0.0, ge=0, le=3)
    low_resolution: float = Field(0.0, ge=0, le=1)
    bias_field: float = Field(0.0, ge=0, le=2)
    illumination: float = Field(0.0, ge=0, le=2)
    gamma: float = Field(0.0, ge=0, le=1.5)
    brightness: float = Field(0.0, ge=0, le=2)
    contrast: float = Field(0.0, ge=0, le=0.9)
    color: float = Field(0.0, ge=0, le=0.9)
    intensity: float = Field(0.1, ge=0, le=1)
    noise: float = Field(0.0, ge=0, le=10)

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, raw: Any) -> Any:
        """`strong` and `{preset: strong, noise: 0}` are read as the values they stand for."""
        given = {"preset": raw} if isinstance(raw, str) else raw
        if not isinstance(given, Mapping) or "preset" not in given:
            return raw
        name = given["preset"]
        if not isinstance(name, str) or name not in PRESETS:
            raise ValueError(f"{name!r} is no preset; known are {', '.join(PRESETS)}")
        return PRESETS[name] | {key: value for key, value in given.items() if key != "preset"}

    def for_role(self, role: str) -> AugmentSettings:
        """All roles are trained alike."""
        return self

    def for_channels(self, channels: int) -> AugmentSettings:
        """Without the parts that images of so many channels have no use for: color and light, or coil sensitivity."""
        unused = {"color": 0.0, "illumination": 0.0} if channels == 1 else {"bias_field": 0.0}
        return self.model_copy(update=unused)


class AugmentByRole(Strict):
    """Settings that differ by what a model is for: a generalist for all hospitals, a specialist for one."""

    shared: AugmentSettings = Field(AugmentSettings(), alias="global")
    personal: AugmentSettings = AugmentSettings()
    selector: AugmentSettings = AugmentSettings()

    @model_serializer
    def _by_study_names(self) -> dict[str, Any]:
        return {role: self.for_role(role).to_json() for role in ROLES}

    def for_role(self, role: str) -> AugmentSettings:
        """The settings of a model of that role; one with another name is trained as the global model."""
        found: AugmentSettings = getattr(self, role if role in ("personal", "selector") else "shared")
        return found

    def for_channels(self, channels: int) -> AugmentByRole:
        """See `AugmentSettings.for_channels`."""
        fitted = {name: getattr(self, name).for_channels(channels) for name in type(self).model_fields}
        return self.model_copy(update=fitted)


Augment = AugmentSettings | AugmentByRole


def shown_flips(augment: Augment) -> tuple[tuple[int, ...], ...]:
    """The ways, as axes of `[N, C, H, W]` to flip, in which training showed an image; `()`, as it is, comes first.

    What test-time augmentation averages over: a net knows nothing of a flip it never saw. Where roles differ, a flip
    counts if the global and the personalized models all saw it; the selector is not asked about flipped images.
    """
    ways = [augment.for_role(role) for role in SEGMENTING]
    across = all(way.flip for way in ways)
    upside = all(way.flip_vertical for way in ways)
    return ((), *([(3,)] if across else []), *([(2,)] if upside else []), *([(2, 3)] if across and upside else []))


def augment_settings(raw: object) -> Augment:
    """A study's `augment` section in any of its shapes; for use inside a schema's validation."""
    if isinstance(raw, (AugmentSettings, AugmentByRole)):
        return raw
    by_role = isinstance(raw, Mapping) and bool(raw) and set(raw) <= set(ROLES)
    kind: type[Augment] = AugmentByRole if by_role else AugmentSettings
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        raise PydanticCustomError(TOLD, "{text}", {"text": first_problem(error, "augment")}) from None
