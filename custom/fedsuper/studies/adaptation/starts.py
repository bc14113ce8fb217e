"""Where an outside hospital's own model may start from: what the federation's models say together, or one of them.

    even        the mean of all models' weights, the global one among them
    selector    their mean weighted by how the hospital's images resemble the sites (mean of the selector's posterior)
    NAME        one model as it is, the global one or a site's
"""

from __future__ import annotations

import torch

from fedsuper.core.mode import SELECT
from fedsuper.core.state import State, combine
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.closed_form import discriminant_of
from fedsuper.train.loop import predict as forward

EVEN, SELECTOR = "even", "selector"


def starting_points(predictor: Predictor, images: torch.Tensor) -> dict[str, State]:
    """Every start by name; mixtures only where there is more than one model to mix."""
    experts = predictor.experts
    found: dict[str, State] = dict(experts)
    if len(experts) > 1:
        found[EVEN] = combine(list(experts.values()), [1 / len(experts)] * len(experts))
    weights = site_weights(predictor, images)
    named = {site: weight for site, weight in weights.items() if site in experts}
    if len(named) > 1:
        total = sum(named.values()) or 1.0
        found[SELECTOR] = combine([experts[site] for site in named], [weight / total for weight in named.values()])
    return found


def site_weights(predictor: Predictor, images: torch.Tensor) -> dict[str, float]:
    """The mean posterior of every site over the hospital's images; nothing where no selector can tell."""
    super_model = predictor.super_model
    closed = discriminant_of(super_model)
    if super_model.mode == SELECT and super_model.selector is not None:
        q = predictor.selector_probabilities(images)
    elif closed is not None:
        q = closed.posterior(forward(predictor.feature_net(), images, predictor.compute))
    else:
        return {}
    return dict(zip(super_model.sites, q.mean(dim=0).tolist(), strict=True))
