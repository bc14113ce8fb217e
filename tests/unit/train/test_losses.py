"""The losses: their equations, and gradients where regions are missing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsuper.train.losses import LOSSES, dice_bce_loss, dice_loss


def pair(seed: int, shape: tuple[int, ...] = (3, 2, 8, 8)) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(shape, generator=random), (torch.rand(shape, generator=random) > 0.6).float()


def test_dice_is_the_written_equation() -> None:
    logits, masks = pair(0)
    found = []
    for image, mask in zip(logits.sigmoid().double(), masks.double(), strict=True):
        for p, y in zip(image, mask, strict=True):
            found.append(1 - (2 * (p * y).sum() + 1) / (p.sum() + y.sum() + 1))
    assert float(dice_loss(logits, masks)) == pytest.approx(float(torch.stack(found).mean()), abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**16))
def test_dice_is_a_share_and_improves_towards_the_mask(seed: int) -> None:
    logits, masks = pair(seed)
    value = float(dice_loss(logits, masks))
    assert 0 <= value <= 1
    better = logits + 2 * (2 * masks - 1)
    assert float(dice_loss(better, masks)) < value and float(dice_bce_loss(better, masks)) < float(
        dice_bce_loss(logits, masks)
    )


def test_a_perfect_answer_costs_nothing_and_a_wrong_one_everything() -> None:
    _, masks = pair(1)
    for loss in LOSSES.values():
        assert float(loss(200 * (2 * masks - 1), masks)) < 1e-6
    assert float(dice_loss(-200 * (2 * masks - 1), masks)) > 0.9


@pytest.mark.parametrize("name", LOSSES)
def test_an_image_without_the_region_still_pulls_the_answer_down(name: str) -> None:
    logits = torch.zeros(1, 1, 8, 8, requires_grad=True)
    LOSSES[name](logits, torch.zeros(1, 1, 8, 8)).backward()
    assert logits.grad is not None and (logits.grad > 0).all()


@pytest.mark.parametrize("name", LOSSES)
def test_half_precision_logits_are_summed_in_full_precision(name: str) -> None:
    logits, masks = pair(2, (1, 1, 256, 256))
    exact, rounded = (LOSSES[name](x, masks) for x in (logits.bfloat16().float(), logits.bfloat16()))
    assert rounded.dtype == torch.float32 and torch.equal(exact, rounded)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("scale", [0.0, 1e4])
def test_extreme_logits_stay_finite(name: str, scale: float) -> None:
    logits, masks = pair(3)
    logits = (scale * logits).requires_grad_()
    value = LOSSES[name](logits, masks)
    value.backward()
    assert value.isfinite() and logits.grad is not None and logits.grad.isfinite().all()
