"""The study: everything that decides what a run computes, validated before any work starts.

Shared keys stand on top, a method's own knobs under the method's name. Unknown keys are errors, because a
misspelt knob that is silently ignored is an experiment that was never run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedsuper.errors import FedSuperError


class Strict(BaseModel):
    """A frozen section that refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class OptimizerConfig(Strict):
    """The optimizer of every segmentation model, and what becomes of its state between rounds."""

    name: Literal["adam", "amsgrad", "sgd"] = "adam"
    lr: float = Field(0.002, gt=0)
    betas: tuple[float, float] = (0.9, 0.999)
    momentum: float = Field(0.0, ge=0, lt=1)
    weight_decay: float = Field(0.0, ge=0)
    state: Literal["keep", "reset"] = "keep"


class ModelConfig(Strict):
    """The segmentation net: MONAI's residual U-Net (FedSM) or the plain BatchNorm U-Net (IOP-FL)."""

    name: Literal["unet", "plain-unet"] = "unet"
    channels: tuple[int, ...] = (16, 32, 64, 128, 256)
    strides: tuple[int, ...] | None = None
    residual_units: int = Field(0, ge=0)
    norm: Literal["instance", "batch"] = "instance"

    @model_validator(mode="after")
    def _depth(self) -> ModelConfig:
        if len(self.channels) < 2 or min(self.channels) < 1:
            raise ValueError("channels needs at least two positive widths, for example [16, 32, 64]")
        if self.strides is not None and len(self.strides) != len(self.channels) - 1:
            raise ValueError(f"strides needs one entry fewer than channels ({len(self.channels) - 1})")
        return self


class SelectorConfig(Strict):
    """The model selector: its net and how single-class sites train it (server-adam is the sound one)."""

    net: Literal["small", "vgg11"] = "small"
    optimizer: Literal["server-adam", "synced-moments", "local"] = "server-adam"
    lr: float = Field(0.003, gt=0)


class AugmentSection(Strict):
    """Random changes of a training batch; drawn once and fed to all of a site's models."""

    flip: bool = True
    rotation: float = Field(15.0, ge=0, le=180)
    scale: float = Field(0.1, ge=0, lt=1)
    intensity: float = Field(0.1, ge=0)
    noise: float = Field(0.0, ge=0)


class PreprocessSection(Strict):
    """The deterministic part of the input pipeline."""

    normalise: Literal["zscore", "minmax", "percentile"] = "zscore"
    scope: Literal["image", "volume"] = "image"
    slices: Literal[1, 3] = 1


class SplitSection(Strict):
    """How a site's cases fall into train, validation and test where it brings no splits.json."""

    ratios: Literal["fedsm", "iop-fl"] = "fedsm"
    seed: int = 0


class ComputeConfig(Strict):
    """Where and how tensors are computed. The thread count is part of the study: it changes the bits."""

    device: str = "auto"
    amp: Literal["off", "bf16", "fp16"] = "off"
    channels_last: bool = False
    torch_threads: int = Field(1, ge=1)
    eval_batch_size: int = Field(8, ge=1)
    cache_mb: int = Field(0, ge=0)


class FederationConfig(Strict):
    """Tolerance: how many sites a round needs and how long it waits for them (seconds)."""

    min_sites: int = Field(1, ge=1)
    round_timeout: int = Field(3600, ge=1)


class RoutingConfig(Strict):
    """Test-time routing for hospitals outside the federation (IOP-FL, Eq. 5 to 10)."""

    preset: Literal["paper", "as-released"] = "paper"
    level: Literal["layer", "global"] = "layer"
    gate: Literal["input", "static"] = "input"
    normalise: bool = True
    reset: bool = True
    norm_statistics: Literal["image", "batch", "running"] = "image"
    epochs: int = Field(10, ge=0)
    lr: float = Field(0.001, ge=0)
    beta: float = Field(0.01, ge=0)
    radius: int = Field(10, ge=1)
    noise: float = Field(0.5, ge=0)
    consistency: bool = True
    shape: bool = True
    entropy: bool = True
    patience: int = Field(0, ge=0)
    seconds_per_image: float | None = Field(None, gt=0)


class Study(Strict):
    """One experiment. `method: fedsm` alone is a study; every other key has a default that holds."""

    method: str = "fedsm"
    rounds: int | Literal["auto"] = 60
    patience: int = Field(20, ge=1, description="rounds without a better validation Dice before `rounds: auto` stops")
    max_rounds: int = Field(200, ge=1, description="the bound of `rounds: auto`")
    local_epochs: int = Field(1, ge=1)
    image_size: int = Field(128, ge=32, le=2048)
    batch_size: int = Field(4, ge=1)
    seed: int = Field(0, ge=0)
    loss: Literal["dice", "dice-bce"] = "dice-bce"
    optimizer: OptimizerConfig = OptimizerConfig()
    model: ModelConfig = ModelConfig()
    selector: SelectorConfig = SelectorConfig()
    augment: AugmentSection = AugmentSection()
    preprocess: PreprocessSection = PreprocessSection()
    split: SplitSection = SplitSection()
    compute: ComputeConfig = ComputeConfig()
    federation: FederationConfig = FederationConfig()
    routing: RoutingConfig = RoutingConfig()
    knobs: dict[str, dict[str, Any]] = Field(default_factory=dict, description="sections named after a method")

    @model_validator(mode="after")
    def _positive_rounds(self) -> Study:
        if self.rounds != "auto" and self.rounds < 1:
            raise ValueError("rounds: at least 1 is needed, or `auto`")
        return self

    def with_method(self, method: str) -> Study:
        """The same study for another method; each method keeps reading its own knobs."""
        return parse_study({**self.to_json(), "method": method})

    def with_seed(self, seed: int) -> Study:
        """The same study with another seed."""
        return self.model_copy(update={"seed": seed})

    def with_changes(self, overrides: list[str]) -> Study:
        """The same study with `a.b=c` overrides."""
        raw: Any = self.to_json()
        for override in overrides:
            raw = _apply_override(raw, override)
        return parse_study(raw)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON in the shape of the YAML file; `parse_study` reads it back to an equal study."""
        plain = self.model_dump(mode="json", exclude={"knobs"})
        return {**plain, **self.knobs}


def parse_study(raw: dict[str, Any], source: str = "study") -> Study:
    """Validate a plain mapping; every problem becomes one line that names the key."""
    from fedsuper.methods import METHODS, method_knobs  # methods import the config's types

    if not isinstance(raw, dict):
        raise FedSuperError(
            f"{source}: expected a mapping of keys, got {type(raw).__name__}; see docs/reference/study.md"
        )
    if "knobs" in raw:
        raise FedSuperError(f"{source}: unknown key 'knobs'; put a method's knobs under the method's own name")
    shared = {key: value for key, value in raw.items() if key not in METHODS}
    knobs = {key: value if value is not None else {} for key, value in raw.items() if key in METHODS}
    method = shared.get("method", "fedsm")
    if method not in METHODS:
        raise FedSuperError(f"{source}: method is '{method}'; known methods: {', '.join(sorted(METHODS))}")
    try:
        checked = {
            name: method_knobs(name).model_validate(value).model_dump(mode="json", by_alias=True, exclude_unset=True)
            for name, value in knobs.items()
        }
        return Study.model_validate({**shared, "knobs": checked})
    except ValidationError as error:
        raise FedSuperError(f"{source}: {_first_problem(error)}") from None


def read_study(path: Path | None, overrides: list[str] | None = None, base: dict[str, Any] | None = None) -> Study:
    """Read a study file (`None`: the defaults, or `base`), apply `a.b=c` overrides, validate."""
    raw: Any = dict(base or {})
    source = "study"
    if path is not None:
        source = str(path)
        try:
            raw = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
        except OSError as error:
            raise FedSuperError(
                f"{path}: cannot read the study ({error.strerror}); give the path of a YAML file"
            ) from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            line = " ".join(str(error).split())
            raise FedSuperError(f"{path}: not a YAML file ({line})") from None
    for override in overrides or []:
        raw = _apply_override(raw, override)
    return parse_study(raw, source)


def _apply_override(raw: Any, override: str) -> Any:
    path, separator, text = override.partition("=")
    keys = path.split(".")
    if not separator or not all(keys) or not isinstance(raw, dict):
        raise FedSuperError(f"{override}: expected key=value, for example optimizer.lr=0.002")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = text
    root = dict(raw)
    node = root
    for key in keys[:-1]:
        child = node.get(key)
        if child is not None and not isinstance(child, dict):
            raise FedSuperError(f"{override}: '{key}' is a single value, not a section")
        node[key] = dict(child or {})
        node = node[key]
    node[keys[-1]] = value
    return root


def _first_problem(error: ValidationError) -> str:
    problems = error.errors()
    first = problems[0]
    where = ".".join(str(part) for part in first["loc"]) or "study"
    if first["type"] == "extra_forbidden":
        text = f"unknown key '{where}'; see docs/reference/study.md for the keys"
    else:
        text = f"{where}: {first['msg'].removeprefix('Value error, ')} (got {first['input']!r})"
    more = len(problems) - 1
    return text + (f" (and {more} more problem{'s' if more > 1 else ''})" if more else "")
