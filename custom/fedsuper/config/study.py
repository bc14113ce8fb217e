"""The study: everything that decides what a run computes.

Shared keys stand on top, a method's own knobs under the method's name, a mode's under `modes`. What those keys are is
not known here but where a study is read (`config.reading`), so that methods and modes may build on this module.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from fedsuper.config import sections
from fedsuper.config.routing import RoutingConfig
from fedsuper.data.augment.settings import Augment, AugmentSettings, augment_settings
from fedsuper.data.preprocess_settings import PreprocessSettings
from fedsuper.models.net import NetSettings
from fedsuper.models.registry import net_settings
from fedsuper.schema import Strict


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
    wire: Literal["fp32", "fp16", "bf16"] = "fp32"
    optimizer: sections.OptimizerConfig = sections.OptimizerConfig()
    model: Annotated[SerializeAsAny[NetSettings], BeforeValidator(net_settings)] = Field(
        default_factory=lambda: net_settings({})
    )
    selector: sections.SelectorConfig = sections.SelectorConfig()
    augment: Annotated[SerializeAsAny[Augment], BeforeValidator(augment_settings)] = AugmentSettings()
    preprocess: PreprocessSettings = PreprocessSettings()
    split: sections.SplitSection = sections.SplitSection()
    compute: sections.ComputeConfig = sections.ComputeConfig()
    federation: sections.FederationConfig = sections.FederationConfig()
    privacy: sections.PrivacyConfig = sections.PrivacyConfig()
    tracking: Annotated[sections.TrackingSection, BeforeValidator(sections.by_name)] = sections.TrackingSection()
    routing: RoutingConfig = RoutingConfig()
    prediction: sections.PredictionSection = sections.PredictionSection()
    modes: dict[str, dict[str, Any]] = Field(default_factory=dict, description="sections named after a mode")
    knobs: dict[str, dict[str, Any]] = Field(default_factory=dict, description="sections named after a method")

    @model_validator(mode="after")
    def _positive_rounds(self) -> Study:
        if self.rounds != "auto" and self.rounds < 1:
            raise ValueError("rounds: at least 1 is needed, or `auto`")
        if self.rounds == "auto" and self.privacy.noise > 0:
            raise ValueError("rounds: `auto` needs validation scores, which `privacy.noise` keeps at the sites; give a "
                             "number of rounds")
        return self

    @model_validator(mode="after")
    def _image_fits_the_net(self) -> Study:
        step = self.model.image_multiple()
        if self.image_size % step or self.image_size < 2 * step:
            raise ValueError(f"image_size {self.image_size} does not fit the model: {self.model.name} with these "
                             f"settings needs a multiple of {step}, at least {2 * step}")
        return self

    def with_seed(self, seed: int) -> Study:
        """The same study with another seed."""
        return self.model_copy(update={"seed": seed})

    def to_json(self) -> dict[str, Any]:
        """Plain JSON in the shape of the YAML file; `parse_study` reads it back to an equal study."""
        plain = self.model_dump(mode="json", exclude={"knobs"})
        return {**plain, **self.knobs}
