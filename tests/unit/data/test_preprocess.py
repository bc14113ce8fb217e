"""From native pixels to the network's input and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from data_roots import disc_label
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fedsuper.data.images.geometry import SliceFrame
from fedsuper.data.images.io import Image
from fedsuper.data.preprocess import (
    Preprocess,
    prepare_image,
    prepare_label,
    regions_to_labels,
    restore_probabilities,
)
from fedsuper.errors import FedSuperError

NESTED = {"disc": (1, 2), "cup": (2,)}
RANDOM = np.random.default_rng(0)


def image_of(array: np.ndarray) -> Image:
    return Image(array.astype(np.float32), Path("test.png"), "raster", array.shape[2:], SliceFrame())


def test_zscore_is_joint_so_the_tint_survives() -> None:
    array = RANDOM.normal(size=(1, 3, 40, 30)) * 5 + np.array([100, 50, 20]).reshape(1, 3, 1, 1)
    prepared = prepare_image(image_of(array), Preprocess(image_size=32), 3)
    assert prepared.shape == (1, 3, 32, 32) and prepared.dtype == torch.float32
    assert abs(float(prepared.mean())) < 1e-5 and abs(float(prepared.std(correction=0)) - 1) < 1e-5
    red, green, blue = prepared.mean(dim=(0, 2, 3))
    assert red > 1 > green > blue


@pytest.mark.parametrize("normalize", ["zscore", "minmax", "percentile"])
@pytest.mark.parametrize("scope", ["image", "volume"])
def test_normalization_ranges(normalize: str, scope: str) -> None:
    array = RANDOM.normal(size=(3, 1, 16, 16)) * np.array([1, 10, 100]).reshape(3, 1, 1, 1) + 1000
    prepared = prepare_image(image_of(array), Preprocess(image_size=16, normalize=normalize, scope=scope), 1)
    groups = prepared if scope == "image" else prepared[None]
    for group in groups:
        if normalize == "zscore":
            torch.testing.assert_close(group.mean(), torch.tensor(0.0), atol=1e-5, rtol=0)
            torch.testing.assert_close(group.std(correction=0), torch.tensor(1.0), atol=1e-5, rtol=0)
        else:
            assert float(group.min()) == 0 and float(group.max()) == 1
    if normalize == "percentile":
        assert int((prepared == 1).sum()) > 1  # the window cuts the tails off


@pytest.mark.parametrize("normalize", ["zscore", "minmax", "percentile"])
@pytest.mark.parametrize("value", [0.0, 7.3, -1e-20, 3e38, 65535.0])
def test_a_constant_image_becomes_zeros(normalize: str, value: float) -> None:
    settings_ = Preprocess(image_size=16, normalize=normalize)
    prepared = prepare_image(image_of(np.full((2, 1, 33, 47), value)), settings_, 1)
    assert prepared.abs().max() == 0


def test_extreme_values_stay_finite() -> None:
    array = np.zeros((1, 1, 20, 20))
    array[..., :10] = 3e38
    array[..., 10:] = -3e38
    for normalize in ("zscore", "minmax", "percentile"):
        assert prepare_image(image_of(array), Preprocess(image_size=16, normalize=normalize), 1).isfinite().all()


def test_context_slices_are_the_neighbors_and_ends_repeat() -> None:
    array = RANDOM.normal(size=(4, 1, 16, 16))
    one = prepare_image(image_of(array), Preprocess(image_size=16), 1)
    three = prepare_image(image_of(array), Preprocess(image_size=16, slices=3), 1)
    assert three.shape == (4, 3, 16, 16)
    torch.testing.assert_close(three[2], torch.cat([one[1], one[2], one[3]]))
    torch.testing.assert_close(three[0], torch.cat([one[0], one[0], one[1]]))
    torch.testing.assert_close(three[3], torch.cat([one[2], one[3], one[3]]))
    assert prepare_image(image_of(array[:1]), Preprocess(image_size=16, slices=3), 1).shape == (1, 3, 16, 16)


def test_channels_are_matched_only_where_nothing_is_lost() -> None:
    gray = RANDOM.normal(size=(1, 1, 16, 16))
    repeated = prepare_image(image_of(gray), Preprocess(image_size=16), 3)
    assert torch.equal(repeated[:, 0], repeated[:, 2])
    as_rgb = np.repeat(gray, 3, axis=1)
    torch.testing.assert_close(prepare_image(image_of(as_rgb), Preprocess(image_size=16), 1), repeated[:, :1])
    with pytest.raises(FedSuperError, match="has 3 channels, the task has 1"):
        prepare_image(image_of(RANDOM.normal(size=(1, 3, 16, 16))), Preprocess(image_size=16), 1)
    with pytest.raises(FedSuperError, match="has 2 channels, the task has 3"):
        prepare_image(image_of(RANDOM.normal(size=(1, 2, 16, 16))), Preprocess(image_size=16), 3)


def test_resizing_is_anti_aliased() -> None:
    stripes = np.zeros((1, 1, 128, 128))
    stripes[..., ::2] = 1  # one pixel on, one off: sampled without a filter it would alias to all or nothing
    stripes[..., :64, :] = 0.5
    prepared = prepare_image(image_of(stripes), Preprocess(image_size=16, normalize="minmax"), 1)
    inner = prepared[0, 0, 10:14, 2:14]
    assert float(inner.std()) < 0.05


def test_settings_are_checked_and_round_trip() -> None:
    settings_ = Preprocess(image_size=384, normalize="percentile", scope="volume", slices=3)
    assert Preprocess.model_validate(settings_.to_json()) == settings_
    old = settings_.to_json() | {"normalise": "percentile"}
    del old["normalize"]
    assert Preprocess.model_validate(old) == settings_, "as super models spelled it before version 0.2"
    for faulty in (
        {"image_size": 4},
        {"image_size": True},
        {"image_size": 64, "slices": 2},
        {"image_size": 64, "x": 1},
        {"image_size": 64, "normalize": "max"},
        {"image_size": 64, "normalise": "minmax", "normalize": "zscore"},
    ):
        with pytest.raises(ValidationError):
            Preprocess.model_validate(faulty)


def test_labels_at_native_size_are_exact() -> None:
    label = RANDOM.integers(0, 3, (5, 24, 24))
    masks = prepare_label(label, NESTED, Preprocess(image_size=24))
    assert masks.dtype == torch.uint8 and masks.shape == (5, 2, 24, 24)
    np.testing.assert_array_equal(masks[:, 0], label > 0)
    np.testing.assert_array_equal(masks[:, 1], label == 2)


@pytest.mark.parametrize("native", [(256, 256), (200, 310), (97, 61), (50, 50)])
def test_thick_regions_keep_their_area(native: tuple[int, int]) -> None:
    label = disc_label(native)[None]
    masks = prepare_label(label, NESTED, Preprocess(image_size=64)).float()
    for mask, share in zip(masks[0], [(label > 0).mean(), (label == 2).mean()], strict=True):
        assert abs(float(mask.mean()) / share - 1) < 0.06


@pytest.mark.parametrize("factor", [2, 3, 4, 8, 7.3])
@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0, 3.0])
def test_a_line_of_one_pixel_stays_a_line(factor: float, slope: float) -> None:
    """Half coverage alone would wipe it out, or leave dots."""
    native = int(32 * factor)
    label = np.zeros((1, native, native), dtype=np.int32)
    run = np.linspace(2, native - 3, 4 * native)
    drop = native * 0.03 + slope * (run - 2)
    inside = drop < native - 2
    label[0, drop[inside].astype(int), run[inside].astype(int)] = 1
    mask = prepare_label(label, {"vessel": (1,)}, Preprocess(image_size=32))[0, 0].numpy()
    rows, columns = np.nonzero(label[0])
    on_line = np.zeros((32, 32), dtype=bool)
    on_line[(rows / factor).astype(int).clip(0, 31), (columns / factor).astype(int).clip(0, 31)] = True
    near = np.asarray(torch.nn.functional.max_pool2d(torch.from_numpy(mask)[None].float(), 3, 1, 1)[0], dtype=bool)
    assert (near | ~on_line).all(), "every part of the line is within a pixel of the mask"
    assert mask.sum() >= 0.7 * max(np.ptp(np.nonzero(on_line)[0]), np.ptp(np.nonzero(on_line)[1]))
    assert mask.sum() <= 2.2 * on_line.sum()


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    height=st.integers(3, 60),
    width=st.integers(3, 60),
    size=st.integers(8, 40),
    density=st.floats(0.001, 0.9),
)
def test_regions_neither_vanish_nor_unnest(seed, height, width, size, density) -> None:
    random = np.random.default_rng(seed)
    label = np.where(random.random((1, height, width)) < density, random.integers(1, 3, (1, height, width)), 0)
    masks = prepare_label(label, NESTED, Preprocess(image_size=size))
    for mask, native in zip(masks[0], (label > 0, label == 2), strict=True):
        assert bool(mask.any()) == bool(native.any())
    assert (masks[:, 0] >= masks[:, 1]).all()


@settings(max_examples=40, deadline=None)
@given(
    height=st.integers(9, 70), width=st.integers(9, 70), size=st.sampled_from([16, 32, 64]), shift=st.integers(-2, 2)
)
def test_there_and_back_keeps_the_region_in_place(height, width, size, shift) -> None:
    label = disc_label((height, width), shift)[None]
    masks = prepare_label(label, NESTED, Preprocess(image_size=size)).float()
    back = regions_to_labels(restore_probabilities(masks, (height, width)), NESTED)
    assert back.shape == label.shape and back.dtype == np.uint8
    for region, returned in ((label > 0, back > 0), (label == 2, back == 2)):
        if region.sum() > 20:
            center, found = (np.array(np.nonzero(mask)).mean(axis=1) for mask in (region, returned))
            assert np.abs(center[1:] - found[1:]).max() < 0.75 * max(height, width) / size + 0.75


def test_restored_probabilities_are_bilinear_at_native_size() -> None:
    ramp = torch.linspace(0, 1, 8).expand(1, 1, 8, 8)
    restored = restore_probabilities(ramp, (40, 24))
    assert restored.shape == (1, 1, 40, 24) and restored.dtype == torch.float32
    assert (restored.diff(dim=3) >= -1e-6).all() and float(restored.diff(dim=2).abs().max()) < 1e-6
    assert torch.equal(restore_probabilities(ramp, (8, 8)), ramp)


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.sets(st.integers(1, 6), min_size=1), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
def test_label_maps_reproduce_any_regions_that_labels_can_say(values, seed) -> None:
    regions = {f"r{i}": tuple(sorted(covered)) for i, covered in enumerate(values)}
    known = [0, *sorted({value for covered in values for value in covered})]
    label = np.random.default_rng(seed).choice(known, (2, 9, 8))
    masks = torch.stack([torch.from_numpy(np.isin(label, covered)) for covered in regions.values()], dim=1).float()
    back = regions_to_labels(masks, regions)
    for index, covered in enumerate(regions.values()):
        np.testing.assert_array_equal(np.isin(back, covered), masks[:, index].numpy() > 0)


def test_inner_region_wins_and_disjoint_regions_go_by_probability() -> None:
    cup_only = torch.tensor([0.1, 0.9]).view(1, 2, 1, 1)
    assert regions_to_labels(cup_only, NESTED).item() == 2
    disjoint = {"left": (1,), "right": (2,)}
    both = torch.tensor([[0.7, 0.8], [0.9, 0.6], [0.2, 0.3]]).view(3, 2, 1, 1)
    assert regions_to_labels(both, disjoint).ravel().tolist() == [2, 1, 0]
    assert regions_to_labels(torch.tensor([0.4, 0.35]).view(1, 2, 1, 1), NESTED, threshold=0.3).item() == 2
