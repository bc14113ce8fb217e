"""Sections of a study, each with its defaults and its bounds; they know nothing of methods.

The sections `model`, `augment` and `preprocess` belong to the rooms whose code they steer.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from fedsuper.models.registry import known_selector
from fedsuper.schema import Strict

Decay = Annotated[float, Field(ge=0, lt=1)]


def _as_written(value: object) -> object:
    """YAML reads `off` and `on` as false and true."""
    return {False: "off", True: "on"}[value] if isinstance(value, bool) else value


_switch = BeforeValidator(_as_written)


class OptimizerConfig(Strict):
    """The optimizer of every segmentation model, and what becomes of its state between rounds."""

    name: Literal["adam", "amsgrad", "sgd"] = "adam"
    lr: float = Field(0.002, gt=0)
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    momentum: Decay = 0.0
    weight_decay: float = Field(0.0, ge=0)
    state: Literal["keep", "reset"] = "keep"


class SelectorConfig(Strict):
    """The model selector: trained (its net and how single-class sites train it) or in closed form (`statistics`).

    `gate` turns its probabilities into a model: FedSM's threshold, or the best expected Dice. `auto` leaves either to
    the sites' validation images, both selectors together among the choices. `noise` and `clip` are
    the Gaussian mechanism on the feature sums that every site sends once, noise in units of their sensitivity.
    """

    kind: Literal["trained", "statistics", "auto"] = "auto"
    gate: Literal["threshold", "expected-dice", "auto"] = "auto"
    noise: float = Field(0.0, ge=0)
    clip: float = Field(20.0, gt=0)
    net: Annotated[str, AfterValidator(known_selector)] = "small"
    optimizer: Literal["server-adam", "synced-moments", "local"] = "server-adam"
    lr: float = Field(0.003, gt=0)


class SplitSection(Strict):
    """How a site's cases fall into train, validation and test where it brings no splits.json."""

    ratios: Literal["fedsm", "iop-fl"] = "fedsm"
    seed: int = 0


class ComputeConfig(Strict):
    """Where and how tensors are computed. The thread count is part of the study: it changes the bits."""

    device: str = "auto"
    amp: Annotated[Literal["off", "bf16", "fp16"], _switch] = "off"
    channels_last: bool = False
    compile: Annotated[Literal["off", "on", "graphs"], _switch] = "off"
    deterministic: bool = False
    torch_threads: int = Field(1, ge=1, le=256)  # beyond, libraries end the process
    eval_batch_size: int = Field(8, ge=1)
    cache_mb: int = Field(0, ge=0)
    samples: Literal["memory", "disk"] = "memory"


class FederationConfig(Strict):
    """Tolerance: how many sites a round needs, how long it waits for them (seconds), how far it trusts them, how often
    a run that was broken off starts again by itself, how many megabytes each site may be sent and asked for, where
    the server's models rest, and how many of the finished super model each site is handed over."""

    min_sites: int = Field(1, ge=1)
    round_timeout: int = Field(3600, ge=1)
    away_after: float = Field(60.0, gt=0)
    robust: Literal["none", "clip", "median", "trimmed"] = "none"
    on_mismatch: Literal["stop", "drop"] = "stop"
    newcomers: Literal["refuse", "welcome"] = "refuse"
    keep_rounds: int = Field(5, ge=2)
    restarts: int = Field(3, ge=0, le=100)
    traffic_budget: float | None = Field(None, gt=0)
    models: Literal["memory", "disk"] = "memory"
    handover: Annotated[int, Field(ge=2)] | Literal["all", "own"] = 16


class TrackingSection(Strict):
    """Where the sites' metrics of every round go while a study runs on NVFlare; `tracking: mlflow` is short for `to`.

    `uri` is an MLflow server's (none: a file among the job's results), `project` what MLflow calls the experiment and
    Weights & Biases the project; `online` sends to Weights & Biases instead of writing files to sync later.
    """

    to: Literal["none", "tensorboard", "mlflow", "wandb"] = "none"
    uri: str | None = None
    project: str = "fedsuper"
    online: bool = False


def by_name(value: object) -> object:
    """A section whose first key may stand for it."""
    return {"to": value} if isinstance(value, str) else value


class PrivacyConfig(Strict):
    """What leaves a site, beyond what a site decides for itself.

    `minimum`: figures over fewer patients are withheld. `noise` above 0 turns differential privacy on, in units of
    `clip`: on every change that goes up (`update`, protects all of a site's data) or on every step of training
    (`dp-sgd`, protects a single training image). `delta` is that of the epsilon in the manifest.
    """

    minimum: int = Field(1, ge=1)
    noise: float = Field(0.0, ge=0)
    clip: float = Field(1.0, gt=0)
    mechanism: Literal["update", "dp-sgd"] = "update"
    delta: float = Field(1e-5, gt=0, lt=1)


class PredictionSection(Strict):
    """How a finished super model is put to work, in every mode that does not adapt by itself."""

    norm_statistics: Literal["running", "image", "batch"] = "running"
    tta: bool = False
    one_piece: Annotated[Literal["auto", "off", "on"], _switch] = "auto"
    least_quality: float = Field(0.0, ge=0, le=1)
