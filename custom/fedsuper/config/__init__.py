"""What a study may say. To read one, with the knobs of its methods, see `fedsuper.config.reading`."""

from fedsuper.config.routing import RoutingConfig
from fedsuper.config.sections import (
    ComputeConfig,
    FederationConfig,
    OptimizerConfig,
    PredictionSection,
    PrivacyConfig,
    SelectorConfig,
    SplitSection,
    TrackingSection,
)
from fedsuper.config.study import Study
from fedsuper.schema import Strict

__all__ = [
    "ComputeConfig",
    "FederationConfig",
    "OptimizerConfig",
    "PredictionSection",
    "PrivacyConfig",
    "RoutingConfig",
    "SelectorConfig",
    "SplitSection",
    "Strict",
    "Study",
    "TrackingSection",
]
