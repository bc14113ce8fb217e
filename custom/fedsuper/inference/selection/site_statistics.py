"""What a site computes for the closed-form selector, from images that stay with it: sums and counts.

`training_sums` goes up once, after the last round: n, A and B of the features of its training images. Then every
site's sums come down, and `validation_counts` goes up: what each shrinkage and temperature is worth on its validation
images, and how far they lie. A site with too few training images or patients sends no sums and stays unknown; one with
a single validation patient sends no counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fedsuper.config import SelectorConfig
from fedsuper.core.calibration import CandidateCounts, evaluate_candidates
from fedsuper.core.feature_sums import MINIMUM_IMAGES, MINIMUM_PATIENTS, FeatureSums, private_sums
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.prepared.samples import Samples
from fedsuper.inference.predictor import Predictor
from fedsuper.train.device import Compute
from fedsuper.train.loop import predict as forward


def training_sums(
    super_model: SuperModel, samples: Samples, config: SelectorConfig, compute: Compute
) -> FeatureSums | None:
    """The sums of a site's training images; None where they are too few to say nothing of each.

    Noise comes from the system, never from the study's seed: whoever knows the seed could take it off again.
    """
    if len(samples) < MINIMUM_IMAGES or len(set(samples.cases)) < MINIMUM_PATIENTS:
        return None
    features = features_of(super_model, samples.images, compute)
    if config.noise == 0:
        return FeatureSums.of(features)
    random = torch.Generator()
    random.seed()
    return private_sums(features, config.clip, config.noise, random)


def validation_counts(
    super_model: SuperModel, sums: Sequence[FeatureSums], samples: Samples, label: int, compute: Compute
) -> CandidateCounts | None:
    """What the candidates are worth on a site's validation images; None where they are one patient's.

    None as well for a site that sent no sums: no candidate could name it.
    """
    if len(set(samples.cases)) < 2 or sums[label].count == 0:
        return None
    features = features_of(super_model, samples.images, compute)
    return evaluate_candidates(sums, features, label, case_numbers(samples.cases))


def features_of(super_model: SuperModel, images: torch.Tensor, compute: Compute) -> torch.Tensor:
    """phi of prepared slices, float64 `[N, d]` on the CPU."""
    return forward(Predictor(super_model, compute).feature_net(), images, compute).double()


def case_numbers(cases: Sequence[str]) -> list[int]:
    """Patients numbered in the order in which they appear: `b, a, b` is [0, 1, 0]."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(case, len(numbers)) for case in cases]
