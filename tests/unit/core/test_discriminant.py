"""The closed-form selector's algebra: sums add up, sites come and go, labels carry no meaning."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsuper.core.discriminant import Discriminant, discriminant, pack_sums, unpack_sums
from fedsuper.core.feature_sums import FeatureSums, epsilon, private_sums
from fedsuper.errors import FedSuperError

WIDTH = 6
SEEDS = st.integers(0, 10**6)


def features(seed: int, count: int = 40, width: int = WIDTH) -> torch.Tensor:
    """One site's features: correlated, off center, on scales that differ a hundredfold."""
    random = torch.Generator().manual_seed(seed)
    mixing = torch.randn(width, width, generator=random, dtype=torch.float64)
    center = 2 * torch.randn(width, generator=random, dtype=torch.float64)
    rows = torch.randn(count, width, generator=random, dtype=torch.float64) @ mixing + center
    return rows * torch.logspace(-1, 1, width, dtype=torch.float64)


def federation(seed: int, sites: int = 3) -> list[FeatureSums]:
    return [FeatureSums.of(features(seed + 7 * index, 20 + 5 * index)) for index in range(sites)]


def same(one: Discriminant, other: Discriminant, probe: torch.Tensor, tolerance: float = 1e-9) -> None:
    for ask in ("logits", "posterior", "distances"):
        torch.testing.assert_close(getattr(one, ask)(probe), getattr(other, ask)(probe), rtol=tolerance, atol=tolerance)


@given(SEEDS, st.integers(1, 39))
@settings(max_examples=25, deadline=None)
def test_sums_of_two_parts_add_up_to_the_sums_of_the_whole(seed: int, cut: int) -> None:
    rows = features(seed)
    whole, parts = FeatureSums.of(rows), FeatureSums.of(rows[:cut]) + FeatureSums.of(rows[cut:])
    assert parts.count == whole.count
    torch.testing.assert_close(parts.total, whole.total, rtol=1e-12, atol=1e-9)
    torch.testing.assert_close(parts.outer, whole.outer, rtol=1e-12, atol=1e-9)


@given(SEEDS)
@settings(max_examples=25, deadline=None)
def test_images_that_join_and_leave_again_leave_no_trace(seed: int) -> None:
    sites, guest = federation(seed), FeatureSums.of(features(seed + 99))
    visited = [sites[0] + guest - guest, *sites[1:]]
    same(discriminant(visited, 0.1), discriminant(sites, 0.1), features(seed + 5))


def test_more_images_cannot_leave_than_came() -> None:
    with pytest.raises(FedSuperError, match="cannot take 40 images away from 20"):
        FeatureSums.of(features(1, 20)) - FeatureSums.of(features(2, 40))


@given(SEEDS, st.permutations(range(4)), st.sampled_from([0.0, 0.01, 0.3, 1.0]))
@settings(max_examples=25, deadline=None)
def test_permuting_the_sites_permutes_the_logits(seed: int, order: list[int], shrinkage: float) -> None:
    sites, probe = federation(seed, 4), features(seed + 5)
    straight, mixed = (discriminant(each, shrinkage) for each in (sites, [sites[index] for index in order]))
    torch.testing.assert_close(mixed.logits(probe), straight.logits(probe)[:, order], rtol=1e-7, atol=1e-7)


def test_a_single_site_is_certain() -> None:
    alone = discriminant(federation(3, 1), 0.1)
    assert torch.equal(alone.posterior(features(9)), torch.ones(40, 1, dtype=torch.float64))


@given(SEEDS, st.floats(0.1, 10), st.floats(-5, 5))
@settings(max_examples=25, deadline=None)
def test_without_shrinkage_the_unit_of_a_feature_does_not_matter(seed: int, factor: float, offset: float) -> None:
    def rescaled(rows: torch.Tensor) -> torch.Tensor:
        return torch.cat([rows[:, :1] * factor + offset, rows[:, 1:]], dim=1)

    plain = [features(seed + index) for index in range(3)]
    probe = features(seed + 5)
    one = discriminant([FeatureSums.of(rows) for rows in plain], 0)
    other = discriminant([FeatureSums.of(rescaled(rows)) for rows in plain], 0)
    contrast = one.logits(probe) - one.logits(probe)[:, :1]  # what softmax sees
    moved = other.logits(rescaled(probe)) - other.logits(rescaled(probe))[:, :1]
    torch.testing.assert_close(moved, contrast, rtol=1e-5, atol=1e-5)


def test_the_posterior_is_that_of_gaussians_with_one_covariance() -> None:
    sites, probe = federation(4), features(4, 10)
    covariance = torch.stack([each.covariance for each in sites]).mean(dim=0)
    density = torch.stack([torch.distributions.MultivariateNormal(each.mean, covariance).log_prob(probe)
                           for each in sites], dim=1)
    torch.testing.assert_close(discriminant(sites, 0).posterior(probe), density.softmax(dim=1), rtol=1e-7, atol=1e-9)


def test_temperature_softens_and_keeps_the_order() -> None:
    sites, probe = federation(5), features(5, 10)
    sharp, soft = discriminant(sites, 0.1, 1.0).posterior(probe), discriminant(sites, 0.1, 8.0).posterior(probe)
    assert torch.equal(sharp.argmax(dim=1), soft.argmax(dim=1))
    assert bool((soft.amax(dim=1) <= sharp.amax(dim=1) + 1e-12).all())


def test_a_class_nobody_described_is_never_chosen_nor_near() -> None:
    sites = federation(6)
    with_gap = [sites[0], FeatureSums.nothing(WIDTH), *sites[1:]]
    model, probe = discriminant(with_gap, 0.1), features(6)
    assert bool((model.posterior(probe)[:, 1] == 0).all()) and bool(model.distances(probe)[:, 1].isinf().all())
    same_without = discriminant(sites, 0.1).posterior(probe)
    torch.testing.assert_close(model.posterior(probe)[:, [0, 2, 3]], same_without)
    with pytest.raises(FedSuperError, match="no site sent"):
        discriminant([FeatureSums.nothing(WIDTH)], 0.1)


def test_more_features_than_images_and_constant_features_stay_finite() -> None:
    rows = [torch.cat([features(seed, 8, 30), torch.ones(8, 1)], dim=1) for seed in range(3)]
    model = discriminant([FeatureSums.of(each) for each in rows], 0.01)
    assert bool(model.logits(rows[0]).isfinite().all())
    changed = rows[0].clone()
    changed[:, -1] = 2.0  # a feature that never varied is one that tells a stranger
    assert bool((model.distances(changed).amin(dim=1) > 10 * model.distances(rows[0]).amin(dim=1)).all())


def test_sums_survive_packing_and_the_wire() -> None:
    sites = federation(8)
    for before, after in zip(sites, unpack_sums(pack_sums(sites)), strict=True):
        assert before.count == after.count and torch.equal(before.outer, after.outer)
    again = FeatureSums.from_state(sites[0].to_state(), "A", WIDTH)
    assert torch.equal(again.total, sites[0].total)


@pytest.mark.parametrize("change", [
    {"total": torch.ones(WIDTH + 1)}, {"outer": torch.ones(2, 2)}, {"total": torch.full((WIDTH,), math.nan)},
    {"count": torch.tensor(-3)}, {"count": torch.ones(2)},
])
def test_what_cannot_be_sums_is_refused_by_name(change: dict[str, torch.Tensor]) -> None:
    with pytest.raises(FedSuperError, match="Hospital-A"):
        FeatureSums.from_state(federation(8)[0].to_state() | change, "Hospital-A", WIDTH)


def test_noise_needs_clipped_features_and_shrinks_with_the_number_of_images() -> None:
    rows = features(11, 400)
    clip = float(rows.norm(dim=1).median())
    quiet = private_sums(rows, clip, 0.0, torch.Generator().manual_seed(0))
    clipped = rows * (clip / rows.norm(dim=1, keepdim=True)).clamp(max=1)
    torch.testing.assert_close(quiet.outer, FeatureSums.of(clipped).outer)
    noisy = private_sums(rows, clip, 4.0, torch.Generator().manual_seed(0))
    assert not torch.equal(noisy.total, quiet.total) and torch.equal(noisy.outer, noisy.outer.T)
    few = private_sums(rows[:20], clip, 4.0, torch.Generator().manual_seed(0))

    def error(sums: FeatureSums, truth: torch.Tensor) -> float:
        return float((sums.mean - truth.mean(dim=0)).norm())

    assert error(noisy, clipped) < error(few, clipped[:20])
    model = discriminant([few, private_sums(features(12, 20), clip, 4.0, torch.Generator().manual_seed(1))], 0.1)
    values = torch.linalg.eigvalsh(model.precision)
    assert bool((values >= 0).all()) and bool(model.logits(rows).isfinite().all())


def test_epsilon_is_that_of_the_gaussian_mechanism() -> None:
    assert epsilon(0, 1e-5) == math.inf
    assert epsilon(1.0, 1e-5) == pytest.approx(4.377, abs=0.01)  # Balle and Wang's analytic mechanism at sigma 1
    assert epsilon(2.0, 1e-5) < epsilon(1.0, 1e-5) < epsilon(0.5, 1e-5)
