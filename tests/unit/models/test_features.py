"""Features of images: the same for every net, batch size and place, and telling what they should tell."""

from __future__ import annotations

import pytest
import torch

from fedsuper.models.build import build_segmentation
from fedsuper.models.features import PER_CHANNEL, ImageFeatures, Measured, QuickInstanceNorm, input_statistics, moments
from fedsuper.models.net import NetSettings
from fedsuper.models.nets.plain_unet import PlainUNetSettings
from fedsuper.models.nets.unet import UNetSettings
from fedsuper.train.device import Compute
from fedsuper.train.loop import predict

NETS = [
    UNetSettings(channels=(4, 8)),
    UNetSettings(channels=(4, 8), residual_units=2, norm="batch"),
    PlainUNetSettings(channels=(4, 8), norm="batch"),
]
IMAGES = torch.randn(7, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("config", NETS, ids=["unet", "residual", "plain-unet"])
def test_every_net_gives_features_of_its_first_two_convolutions(config: NetSettings) -> None:
    torch.manual_seed(0)
    net = build_segmentation(config, 3, 2)
    extractor = ImageFeatures(net)
    found = predict(extractor, IMAGES, Compute(torch.device("cpu")))
    widths = [layer.out_channels for layer in extractor.layers]
    assert found.shape == (7, 2 * sum(widths) + 3 * PER_CHANNEL) and len(widths) == 2
    first = extractor.layers[0]
    torch.testing.assert_close(found[:, : 2 * widths[0]], moments(first(IMAGES)).detach(), rtol=1e-4, atol=1e-5)
    assert not any(module._forward_hooks for module in net.modules())
    small = predict(extractor, IMAGES, Compute(torch.device("cpu"), eval_batch_size=2))
    torch.testing.assert_close(small, found, rtol=1e-4, atol=1e-5)


def test_the_first_convolutions_maps_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    extractor = ImageFeatures(build_segmentation(UNetSettings(channels=(4, 8)), 3, 2))
    measured: list[torch.Tensor] = []
    original = Measured.of

    def counted(maps: torch.Tensor) -> Measured:
        measured.append(maps)
        return original(maps)

    with torch.no_grad():
        monkeypatch.setattr(Measured, "of", counted)
        found = extractor(IMAGES)
        assert len(measured) == 1, "the norm takes what the convolution's moments were read from"
        for layer in extractor.net.modules():
            if isinstance(layer, QuickInstanceNorm):
                layer.register_forward_pre_hook(lambda _, maps: (maps[0].clone(),))
        assert torch.equal(extractor(IMAGES), found) and len(measured) == 3, "of other maps it measures by itself"


def test_the_rest_of_the_net_does_not_run() -> None:
    net = build_segmentation(UNetSettings(channels=(4, 8, 16)), 3, 2)
    ran = []
    for module in net.modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.ConvTranspose2d)):
            module.register_forward_hook(lambda *_: ran.append(1))
    ImageFeatures(net)(IMAGES)
    assert len(ran) <= 2


def test_input_statistics_are_what_they_say() -> None:
    ramp = torch.arange(32.0).expand(1, 1, 32, 32)  # grows by 1 to the right, constant downwards, not curved
    mean, std, low, _, median, _, high, across, down, curved = input_statistics(ramp)[0].tolist()
    assert (mean, across, down, curved) == (15.5, 1, 0, 0)
    assert std == pytest.approx(float(ramp.std(correction=0))) and low < median < high
    assert median == pytest.approx(float(ramp.median()), abs=1)
    assert input_statistics(IMAGES).shape == (7, 3 * PER_CHANNEL)


def test_the_quick_norm_is_the_nets_own_up_to_rounding() -> None:
    maps = 5 * IMAGES + 40  # far from zero, as a convolution of bright images is
    torch.testing.assert_close(QuickInstanceNorm(1e-5)(maps), torch.nn.InstanceNorm2d(3)(maps), rtol=1e-4, atol=1e-5)
    extractor = ImageFeatures(build_segmentation(UNetSettings(channels=(4, 8)), 3, 2))
    assert not any(isinstance(module, torch.nn.InstanceNorm2d) for module in extractor.modules())
