"""One function per aggregation rule. Plain state dicts in, plain state dicts out, nothing in place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from fedsuper.core.state import (
    State,
    blocks_of,
    check_alike,
    check_finite,
    check_form,
    check_sum,
    combine,
    is_float,
    room_like,
)
from fedsuper.errors import FedSuperError

BETAS, EPSILON = (0.9, 0.999), 1e-8


def weighted_mean(
    states: Sequence[Mapping[str, torch.Tensor]], weights: Sequence[float], names: Sequence[str] | None = None
) -> State:
    """FedAvg: w <- sum_k p_k w_k with p_k = n_k / sum_j n_j.

    Weights are renormalized over the states given, so a missing site only changes the shares of the others.
    (FedSM's text prints a further factor 1/K, a misprint that would shrink the model K-fold.)
    Integer entries are not averaged: the largest is taken. `names` says who sent each state, for error messages.
    """
    if not states:
        raise FedSuperError("aggregation: no update to average; at least one site must report")
    if len(states) != len(weights):
        raise FedSuperError(f"aggregation: {len(states)} updates came with {len(weights)} weights")
    if any(not math.isfinite(weight) or weight < 0 for weight in weights):
        raise FedSuperError(f"aggregation: weights must be finite and not negative, got {list(weights)}")
    total = math.fsum(weights)
    if total <= 0:
        raise FedSuperError("aggregation: all weights are zero; a site's weight is its number of training samples")
    senders = dict(zip(names or [f"update {index}" for index in range(len(states))], states, strict=True))
    for who, state in senders.items():
        check_form(state, states[0], who)
    mean = combine(states, [weight / total for weight in weights])
    check_sum(mean, senders)
    return mean


def soft_pull(states_by_site: Mapping[str, Mapping[str, torch.Tensor]], lam: float) -> dict[str, State]:
    """SoftPull (FedSM, Eq. 11): w_k <- lam w_k + (1 - lam)/(K - 1) sum_{j != k} w_j, from the raw uploads.

    Computed in O(K) as lam' w_k + (1 - lam') mean(w) with lam' = (K lam - 1)/(K - 1), which is the same sum.
    lam = 1/K gives every site the plain mean, lam = 1 changes nothing, and the unweighted mean is always kept.
    With one reporter there is nobody to pull towards: its model comes back unchanged.
    Integer entries stay each site's own.
    """
    if not 0.0 <= lam <= 1.0:
        raise FedSuperError(f"soft_pull: lambda must lie in [0, 1], got {lam}; FedSM uses 0.7 and 0.3 (prostate)")
    sites = list(states_by_site)
    if not sites:
        raise FedSuperError("soft_pull: no personalized model to pull; at least one site must report")
    for site in sites:
        check_form(states_by_site[site], states_by_site[sites[0]], site)
    count = len(sites)
    if count == 1 or lam == 1.0:
        for site in sites:
            check_finite(states_by_site[site], site)
        return {site: {name: room_like(tensor).copy_(tensor) for name, tensor in states_by_site[site].items()}
                for site in sites}
    own = (count * lam - 1) / (count - 1)
    pulled = {site: {name: room_like(tensor) for name, tensor in state.items()}
              for site, state in states_by_site.items()}
    for name in states_by_site[sites[0]]:
        _pull_entry([states_by_site[site][name] for site in sites], [pulled[site][name] for site in sites], own)
    check_sum(pulled[sites[0]], states_by_site)  # everybody's mean is in everybody's model
    return pulled


def _pull_entry(tensors: Sequence[torch.Tensor], results: Sequence[torch.Tensor], own: float) -> None:
    """lam' w_k + (1 - lam') mean(w) of one entry, block by block: two passes, two blocks of scratch."""
    if not is_float(tensors[0]):
        for tensor, result in zip(tensors, results, strict=True):
            result.copy_(tensor)
        return
    for blocks in blocks_of([*tensors, *results]):
        sources, targets = blocks[: len(tensors)], blocks[len(tensors) :]
        center = torch.zeros(len(sources[0]), dtype=torch.float64)
        for source in sources:
            center.add_(source)
        center.div_(len(sources)).mul_(1 - own)
        scratch = torch.empty_like(center)
        for source, target in zip(sources, targets, strict=True):
            target.copy_(scratch.copy_(source).mul_(own).add_(center))


def similar_pull(states_by_site: Mapping[str, State], lam: float) -> dict[str, State]:
    """SoftPull towards those alike: Eq. 11 with a weight for each neighbor (FedAMP, FedFomo).

        w_k <- lam w_k + (1 - lam) sum_{j != k} a_kj w_j,   a_kj = exp(-d_kj^2 / D) / sum_{i != k} exp(-d_ki^2 / D)

    d_kj is the distance of the two models over floating entries, D the mean of all d^2: the rule has no scale of its
    own. Where all are equally far apart it is SoftPull. Integer entries stay each site's own.
    """
    sites = list(states_by_site)
    if len(sites) < 3 or lam == 1.0:
        return soft_pull(states_by_site, lam)  # nobody to prefer
    states = [states_by_site[site] for site in sites]
    weights = similarity_weights(squared_distances(states))
    pulled: dict[str, State] = {}
    for k, site in enumerate(sites):
        row = [(1 - lam) * float(weight) for weight in weights[k]]
        row[k] = lam
        mixed = combine(states, row)
        pulled[site] = {name: mixed[name] if is_float(tensor) else tensor.clone() for name, tensor in states[k].items()}
    return pulled


def squared_distances(states: Sequence[State]) -> torch.Tensor:
    """|w_i - w_j|^2 of every pair, `[K, K]` in float64."""
    total = torch.zeros(len(states), len(states), dtype=torch.float64)
    for name, first in states[0].items():
        if is_float(first):
            rows = torch.stack([state[name].double().flatten() for state in states])
            total += torch.stack([(rows - row).square().sum(dim=1) for row in rows])
    return total


def similarity_weights(squared: torch.Tensor) -> torch.Tensor:
    """a `[K, K]`: rows sum to one, the diagonal is zero."""
    count = len(squared)
    scale = squared.sum() / (count * (count - 1))
    nearness = -squared / scale.clamp(min=torch.finfo(torch.float64).tiny)
    return nearness.masked_fill(torch.eye(count, dtype=torch.bool), -torch.inf).softmax(dim=1)


def moving_average(old: Mapping[str, torch.Tensor], new: Mapping[str, torch.Tensor], tau: float) -> State:
    """IOP-FL's local adaptation: (1 - tau) old + tau new over floating entries; integer entries are the new ones.

    A convex combination, so running variances stay positive. The result shares no memory with either.
    """
    if not 0.0 <= tau <= 1.0:
        raise FedSuperError(f"moving_average: tau must lie in [0, 1], got {tau}; IOP-FL uses 0.9")
    check_alike(new, old, "moving_average")
    mixed = combine([old, new], [1 - tau, tau])
    return {name: value if value.is_floating_point() else new[name].clone() for name, value in mixed.items()}


def adam_step(weights: State, gradient: State, m: State, v: State, step: int, lr: float) -> tuple[State, State, State]:
    """One Adam step in float64: m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2, w <- w - lr m^ / (sqrt(v^) + eps)."""
    new_w, new_m, new_v = dict(weights), dict(m), dict(v)
    for name, g in gradient.items():
        first = BETAS[0] * m[name].double() + (1 - BETAS[0]) * g.double()
        second = BETAS[1] * v[name].double() + (1 - BETAS[1]) * g.double().square()
        corrected = first / (1 - BETAS[0] ** step)
        scale = (second / (1 - BETAS[1] ** step)).sqrt() + EPSILON
        new_w[name] = (weights[name].double() - lr * corrected / scale).to(weights[name].dtype)
        new_m[name], new_v[name] = first.to(g.dtype), second.to(g.dtype)
    return new_w, new_m, new_v
