"""Every net of the registry keeps what a net promises: its knobs, its size, its smallest image, its export target."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fedsuper.models.build import build_segmentation, build_selector, first_weights
from fedsuper.models.net import LeveledNet, NetSettings, StridedNet
from fedsuper.models.registry import NETS, SELECTORS, net_settings, settings_type

SMALL: dict[str, dict[str, Any]] = {name: {"name": name, "channels": [4, 6, 8]} for name in NETS}
EVERY_NET = pytest.mark.parametrize("name", NETS)


def count(net: NetSettings, inputs: int, outputs: int) -> int:
    """The number of weights, without memory for one."""
    with torch.device("meta"):
        return sum(weight.numel() for weight in build_segmentation(net, inputs, outputs).parameters())


@EVERY_NET
def test_a_net_gives_one_logit_map_a_region_at_the_images_size(name: str) -> None:
    net = net_settings(SMALL[name])
    side = 2 * net.image_multiple()
    module = build_segmentation(net, 3, 2).eval()
    assert module(torch.zeros(2, 3, side, side)).shape == (2, 2, side, side)


@EVERY_NET
def test_the_same_seed_gives_the_same_first_weights(name: str) -> None:
    net = net_settings(SMALL[name])
    state = torch.get_rng_state()
    one, same, other = (first_weights(lambda: build_segmentation(net, 1, 1), seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one[entry], same[entry]) for entry in one)
    assert not all(torch.equal(one[entry], other[entry]) for entry in one)


@EVERY_NET
def test_what_a_net_is_made_with_is_plain_json(name: str) -> None:
    """The export writes it down; whoever reads it back makes the same net."""
    net = net_settings(SMALL[name])
    assert json.loads(json.dumps(net.arguments(3, 2))) == net.arguments(3, 2)
    assert net_settings(net.to_json()) == net


@pytest.mark.slow
@EVERY_NET
@settings(max_examples=30, deadline=None)
@given(widths=st.lists(st.integers(1, 80), min_size=2, max_size=6), data=st.data())
def test_no_net_has_more_weights_than_its_settings_say(name: str, widths: list[int], data: st.DataObject) -> None:
    knobs: dict[str, Any] = {"name": name, "channels": widths}
    if "residual_units" in settings_type(name).model_fields:
        knobs["residual_units"] = data.draw(st.integers(0, 4))
    net = net_settings(knobs)
    assert count(net, 3, 3) <= net.most_weights()


@EVERY_NET
def test_the_bound_on_weights_is_of_the_right_size(name: str) -> None:
    net = net_settings({"name": name})
    assert net.most_weights() < 3 * count(net, 3, 2)


def test_an_absurd_net_is_refused_before_it_takes_memory() -> None:
    with pytest.raises(ValidationError, match="narrower"):
        settings_type("unet").model_validate({"channels": [16, 100_000, 100_000]})  # 360 GB


@EVERY_NET
def test_steps_down_say_what_side_an_image_needs(name: str) -> None:
    kind = settings_type(name)
    assert issubclass(kind, LeveledNet) and kind.model_validate({"channels": [4, 4, 4]}).image_multiple() == 4
    if issubclass(kind, StridedNet):
        net = kind.model_validate({"channels": [4, 4, 4], "strides": [4, 1]})
        assert net.image_multiple() == 4
        assert build_segmentation(net, 1, 1)(torch.zeros(2, 1, 16, 16)).shape == (2, 1, 16, 16)


@pytest.mark.parametrize("name", SELECTORS)
def test_selectors_give_one_logit_a_site(name: str) -> None:
    class Wanted:
        net = name

    assert build_selector(Wanted(), 3, 5)(torch.zeros(2, 3, 32, 32)).shape == (2, 5)


def test_a_study_is_checked_without_torch() -> None:
    """Mistakes are told at once: a study of the default net needs nothing heavy to be checked."""
    code = "import sys; from fedsuper.config.reading import parse_study; parse_study({}); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
