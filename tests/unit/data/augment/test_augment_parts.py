"""Every part of the strong stack: off at 0, within its bounds, the same by seed, and masks that follow their image."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsuper.data.augment.batch import augment_batch
from fedsuper.data.augment.draws import smooth_fields, strengths
from fedsuper.data.augment.intensity import PARTS, color, gamma, sharpness, spread
from fedsuper.data.augment.settings import STRONG, AugmentByRole, AugmentSettings, augment_settings

OFF: dict[str, Any] = {"flip": False, "rotation": 0, "scale": 0, "intensity": 0}
NEW = {"elastic": 0.05, "blur": 1.0, "sharpen": 2.0, **dict.fromkeys(PARTS, 0.5)}
PART = pytest.mark.parametrize("part", NEW)


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch(count: int = 8, channels: int = 3, size: int = 24, seed: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    images = torch.randn(count, channels, size, size, generator=stream(seed))
    masks = (torch.rand(count, 2, size, size, generator=stream(seed + 1)) > 0.5).float()
    return images, masks


def only(part: str, amount: float | None = None) -> AugmentSettings:
    return AugmentSettings(**OFF | {part: NEW[part] if amount is None else amount})


@PART
def test_a_part_changes_about_half_of_the_samples_or_all_and_never_a_mask_it_should_not(part: str) -> None:
    images, masks = batch(64)
    varied, moved = augment_batch(images, masks, only(part), stream())
    changed = int(((varied - images).abs().amax(dim=(1, 2, 3)) > 1e-4).sum())  # elastic resamples in any case
    everywhere = part in ("intensity", "noise")
    half = 8 < changed < 30 if part in ("blur", "sharpen") else 16 < changed < 48  # one of two directions each
    assert changed == 64 if everywhere else half
    assert torch.equal(moved, masks) or part == "elastic"


@PART
def test_switched_off_it_draws_nothing(part: str) -> None:
    """So an ablation changes one part and leaves the random numbers of the others alone."""
    images, masks = batch()
    random = stream()
    varied, moved = augment_batch(images, masks, only(part, 0.0), random)
    assert varied is images and moved is masks
    assert torch.equal(random.get_state(), stream().get_state())


@PART
def test_the_weaker_the_closer(part: str) -> None:
    images, masks = batch()
    distances = [
        float((augment_batch(images, masks, only(part, share * NEW[part]), stream(3))[0] - images).abs().max())
        for share in (1.0, 0.1, 0.001)
    ]
    assert distances[0] > distances[1] > distances[2] and distances[2] < 0.01


@PART
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**16), channels=st.sampled_from([1, 3]), size=st.sampled_from([8, 17, 32]))
def test_same_seed_same_bits_and_finite(part: str, seed: int, channels: int, size: int) -> None:
    images, masks = batch(3, channels, size, seed)
    kept = images.clone(), masks.clone()
    one, two = (augment_batch(images, masks, only(part), stream(seed)) for _ in range(2))
    assert torch.equal(one[0], two[0]) and torch.equal(one[1], two[1])
    assert one[0].isfinite().all() and one[0].shape == images.shape
    assert torch.equal(images, kept[0]) and torch.equal(masks, kept[1]), "inputs stay as they are"


@pytest.mark.parametrize("name", ["light", "strong"])
def test_the_number_of_threads_does_not_change_a_bit(name: str) -> None:
    images, masks = batch(4, 3, 128)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(augment_batch(images, masks, AugmentSettings.model_validate(name), stream(5)))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert torch.equal(found[0][0], other[0]) and torch.equal(found[0][1], other[1])


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_a_constant_image_stays_finite_through_everything(value: float) -> None:
    images = torch.full((16, 3, 16, 16), value)
    varied, _ = augment_batch(images, torch.zeros(16, 1, 16, 16), AugmentSettings(**STRONG), stream())
    assert varied.isfinite().all()


def test_a_sample_is_varied_alike_whatever_lies_beside_it() -> None:
    images, masks = batch(4)
    others = images.clone()
    others[1:] = 7 * torch.randn(others[1:].shape, generator=stream(77))
    one, two = (augment_batch(x, masks, AugmentSettings(**STRONG), stream(2))[0][0] for x in (images, others))
    torch.testing.assert_close(one, two, atol=1e-5, rtol=0)


def test_masks_follow_their_image_through_the_elastic_deformation() -> None:
    """An image that is its own mask is still (nearly) its own mask afterwards, and has moved."""
    rows, columns = torch.meshgrid(torch.arange(64), torch.arange(64), indexing="ij")
    shape = ((rows - 24) ** 2 / 2 + (columns - 40) ** 2 < 150).float().expand(16, 1, 64, 64)
    varied, moved = augment_batch(shape, shape, only("elastic", 0.1), stream(3))
    both = ((varied >= 0.5) & (moved > 0)).sum(dim=(1, 2, 3)) / ((varied >= 0.5) | (moved > 0)).sum(dim=(1, 2, 3))
    assert float(both.min()) > 0.9 and not torch.equal(moved, shape)
    assert set(moved.unique().tolist()) == {0.0, 1.0}


def test_an_elastic_deformation_does_not_fold() -> None:
    """The place each pixel comes from grows to the right and downwards: no tissue is turned over or seen twice."""
    size = 64
    ramps = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).float()[None]
    for seed in range(20):
        varied, _ = augment_batch(ramps, ramps[:, :1], only("elastic", 0.1), stream(seed))
        inner = varied[..., 12:-12, 12:-12]
        assert (inner[0, 0].diff(dim=0) > 0).all() and (inner[0, 1].diff(dim=1) > 0).all()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**16), amount=st.floats(0.01, 1.5))
def test_gamma_keeps_order_and_range(seed: int, amount: float) -> None:
    images = torch.linspace(-3, 5, 64).view(1, 1, 8, 8).repeat(6, 1, 1, 1)
    varied = gamma(images, amount, stream(seed))
    assert (varied.flatten(1).diff(dim=1) >= 0).all()
    torch.testing.assert_close(varied.amin(dim=(1, 2, 3)), torch.full((6,), -3.0), atol=1e-5, rtol=0)
    torch.testing.assert_close(varied.amax(dim=(1, 2, 3)), torch.full((6,), 5.0), atol=1e-5, rtol=0)


def test_blur_takes_fine_detail_away_and_sharpening_adds_to_it() -> None:
    images, _ = batch(64, size=32)

    def detail(x: torch.Tensor) -> torch.Tensor:
        return x.diff(dim=3).square().mean(dim=(1, 2, 3))

    blurred, sharpened = sharpness(images, 1, 0, stream()), sharpness(images, 0, 1, stream())
    assert (detail(blurred) <= detail(images) * (1 + 1e-6)).all() and (detail(blurred) < 0.9 * detail(images)).any()
    assert (detail(sharpened) >= detail(images) * (1 - 1e-6)).all() and (detail(sharpened) > 1.1 * detail(images)).any()
    flat = torch.full((4, 1, 9, 9), 2.5)
    torch.testing.assert_close(sharpness(flat, 1, 3, stream()), flat, atol=1e-5, rtol=0)


def test_low_resolution_keeps_what_is_coarse_and_loses_what_is_fine() -> None:
    coarse = torch.zeros(32, 1, 32, 32)
    coarse[..., 16:] = 1
    fine = torch.zeros(32, 1, 32, 32)
    fine[..., ::2] = 1
    kept, lost = (PARTS["low_resolution"](x, 1.0, stream(1)) for x in (coarse, fine))
    assert float((kept - coarse).abs()[..., :10].max()) == 0 and float((kept - coarse).abs()[..., -10:].max()) < 1e-6
    assert float(lost.amin(dim=(1, 2, 3)).max()) > 0.3, "stripes of one pixel turn gray"


def test_a_bias_field_is_a_smooth_gain_and_light_a_smooth_shift() -> None:
    images, _ = batch(32, 1, 32)
    lowest = images.amin(dim=(1, 2, 3), keepdim=True)
    gain = (PARTS["bias_field"](images, 0.5, stream(4)) - lowest) / (images - lowest).clamp_min(1e-3)
    inside = (images - lowest) > 0.5
    assert float(gain[inside].min()) > torch.exp(torch.tensor(-0.51)) and float(gain[inside].max()) < torch.exp(
        torch.tensor(0.51)
    )
    shift = (PARTS["illumination"](images, 0.5, stream(4)) - images) / spread(images)
    assert float(shift.abs().max()) <= 0.5 + 1e-4 and float(shift.diff(dim=3).abs().max()) < 0.08


def test_color_moves_the_tint_and_not_the_brightness() -> None:
    flat = torch.randn(32, 1, 16, 16, generator=stream(1)).repeat(1, 3, 1, 1)
    varied = color(flat, 0.5, stream())
    torch.testing.assert_close(varied.mean(dim=1), flat.mean(dim=1), atol=1e-5, rtol=0)
    assert float((varied[:, 0] - varied[:, 1]).abs().max()) > 0.1
    gray = torch.randn(8, 1, 16, 16, generator=stream(2))
    torch.testing.assert_close(color(gray, 0.5, stream()), gray)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**16), height=st.integers(5, 40), width=st.integers(5, 40))
def test_fields_and_strengths_stay_within_one(seed: int, height: int, width: int) -> None:
    images = torch.zeros(16, 1, height, width)
    fields = smooth_fields(images, 2, stream(seed))
    assert fields.shape == (16, 2, height, width) and float(fields.abs().max()) <= 1 + 1e-6
    assert float(strengths(images, stream(seed)).abs().max()) <= 1


def test_settings_come_in_four_shapes() -> None:
    light, strong = augment_settings("light"), augment_settings("strong")
    assert light == AugmentSettings() and strong == AugmentSettings(**STRONG)
    quiet = augment_settings({"preset": "strong", "noise": 0})
    assert isinstance(quiet, AugmentSettings) and quiet == AugmentSettings(**STRONG | {"noise": 0})
    plan = augment_settings({"global": "strong", "personal": {"gamma": 0.2}})
    assert isinstance(plan, AugmentByRole)
    assert plan.for_role("global") == strong and plan.for_role("personal") == AugmentSettings(gamma=0.2)
    assert plan.for_role("selector") == light
    for shape in (light, strong, plan):
        assert augment_settings(shape.to_json()) == shape


def test_a_task_gets_the_parts_it_has_a_use_for() -> None:
    strong = AugmentSettings(**STRONG)
    gray, photo = strong.for_channels(1), strong.for_channels(3)
    assert (gray.color, gray.illumination, gray.bias_field) == (0, 0, strong.bias_field)
    assert (photo.color, photo.illumination, photo.bias_field) == (strong.color, strong.illumination, 0)
    plan = AugmentByRole(shared=strong).for_channels(1)
    assert plan.for_role("global") == gray and plan.for_role("personal") == AugmentSettings()
    assert AugmentSettings().for_channels(3) == AugmentSettings()
