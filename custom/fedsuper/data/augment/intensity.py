"""Changes of gray values and color; masks do not enter. Each part is a function of images, its amount and a stream.

With s a sample's strength, 0 for half of the samples and uniform in -1..1 for the others, amount a:
amount 0 is the identity for every part, and no part but noise mixes the samples' random numbers with their values.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from fedsuper.data.augment.draws import onto, smooth_fields, strengths

Part = Callable[[torch.Tensor, float, torch.Generator], torch.Tensor]


def sharpness(images: torch.Tensor, blur: float, sharpen: float, generator: torch.Generator) -> torch.Tensor:
    """y = x + k (x - G x), G a 5x5 blur: k = s sharpen where s > 0 (edges stressed), k = s blur where s < 0."""
    drawn = strengths(images, generator)
    amount = drawn.clamp_min(0) * sharpen + drawn.clamp_max(0) * blur
    return torch.addcmul(images, amount, images - _blurred(images))


def low_resolution(images: torch.Tensor, amount: float, generator: torch.Generator) -> torch.Tensor:
    """y = x + |s| a (L x - x), L the image in pixels two or four times as wide, their edges smoothed."""
    step = 2 if float(torch.rand((), generator=generator)) < 0.5 else 4
    coarse = functional.avg_pool2d(images, step, ceil_mode=True, count_include_pad=False)
    tall, wide = coarse.shape[2:]
    blocks = coarse[:, :, :, None, :, None].expand(-1, -1, -1, step, -1, step)
    blocks = blocks.reshape(*images.shape[:2], tall * step, wide * step)[..., : images.shape[2], : images.shape[3]]
    return torch.lerp(images, _blurred(blocks), amount * strengths(images, generator).abs())


def bias_field(images: torch.Tensor, amount: float, generator: torch.Generator) -> torch.Tensor:
    """y = x + (x - m) (exp(a f) - 1), m the sample's minimum, f a smooth field in -1..1: a coil's sensitivity in MR."""
    lowest = images.amin(dim=(1, 2, 3), keepdim=True)
    gain = torch.expm1(amount * smooth_fields(images, 1, generator))
    return torch.addcmul(images, images - lowest, gain)


def illumination(images: torch.Tensor, amount: float, generator: torch.Generator) -> torch.Tensor:
    """y = x + a sd(x) f, f a smooth field in -1..1, the same for all channels: uneven light on a photograph."""
    return torch.addcmul(images, spread(images), amount * smooth_fields(images, 1, generator))


def gamma(images: torch.Tensor, amount: float, generator: torch.Generator) -> torch.Tensor:
    """y = m + r ((x - m) / r)^exp(s a), m and r the sample's minimum and range: values keep their order and range."""
    lowest = images.amin(dim=(1, 2, 3), keepdim=True)
    reach = (images.amax(dim=(1, 2, 3), keepdim=True) - lowest).clamp_min(1e-6)
    exponent = torch.exp(amount * strengths(images, generator))
    bent = ((images - lowest) / reach).pow(exponent)
    return torch.where(exponent == 1, images, torch.addcmul(lowest, reach, bent))


def brightness(images: torch.Tensor, amount: float, generator: torch.Generator) -> torch.Tensor:
    """y = x + s a sd(x)."""
    return torch.addcmul(images, strengths(images, generator), spread(images), value=amount)


def contrast(images: torch.Tensor, amount: float, generator: torch.Generator) -> torch.Tensor:
    """y = x + s a (x - mean(x))."""
    centered = images - images.mean(dim=(1, 2, 3), keepdim=True)
    return torch.addcmul(images, strengths(images, generator), centered, value=amount)


def color(images: torch.Tensor, amount: float, generator: torch.Generator) -> torch.Tensor:
    """y_c = x_c + a g_c x_c + a b_c sd(x), g and b uniform in -1..1 less their mean over channels c: the tint moves."""
    draws = 2 * torch.rand(2, *images.shape[:2], 1, 1, generator=generator) - 1
    gain, bias = torch.unbind(onto(draws - draws.mean(dim=2, keepdim=True), images))
    switch = strengths(images, generator).ne(0).to(images)
    return torch.addcmul(images, switch, gain * images + bias * spread(images), value=amount)


def intensity(images: torch.Tensor, amount: float, generator: torch.Generator) -> torch.Tensor:
    """y = (1 + g) x + b sd(x) + c x^2 / max|x|, with g, b, c uniform in +-amount (c at most 0.4 in size).

    The quadratic term bends the curve as a gamma does, brightening one end of the range more than the other; with
    |c| < 1/2 it stays monotone, and unlike a power it is defined for negative values and costs no logarithm.
    """
    draws = 2 * torch.rand(3, len(images), 1, 1, 1, generator=generator) - 1
    gain, bias, bend = torch.unbind(onto(draws * amount, images))
    bend = bend.clamp(-0.4, 0.4) / images.abs().amax(dim=(1, 2, 3), keepdim=True).clamp_min(1e-6)
    return (images * bend).add_(1 + gain).mul_(images).add_(bias * spread(images))


def noise(images: torch.Tensor, amount: float, generator: torch.Generator) -> torch.Tensor:
    """y = x + a sd(x) n, n standard normal in every pixel."""
    return images + amount * spread(images) * onto(torch.randn(images.shape, generator=generator), images)


# In the order in which light and machine would do it: the object, the coil or lamp, the detector, its noise.
PARTS: dict[str, Part] = {
    "low_resolution": low_resolution,
    "bias_field": bias_field,
    "illumination": illumination,
    "gamma": gamma,
    "brightness": brightness,
    "contrast": contrast,
    "color": color,
    "intensity": intensity,
    "noise": noise,
}


def spread(images: torch.Tensor) -> torch.Tensor:
    """The standard deviation of each sample, by moments: inputs are normalized, so nothing cancels, and it is fast."""
    flat = images.flatten(1)
    second: torch.Tensor = torch.linalg.vecdot(flat, flat) / flat.shape[1]
    return (second - flat.mean(dim=1).square()).clamp_min(0).sqrt().view(-1, 1, 1, 1)


def _blurred(images: torch.Tensor) -> torch.Tensor:
    """Binomial weights 1 4 6 4 1 down and across, as two passes of 1 2 1 each; edges repeat outwards.

    Sums of shifted views: a tenth of the time of torch's depthwise convolution on a processor.
    """
    for axis in (2, 2, 3, 3):
        last = images.shape[axis] - 1
        total = 2 * images
        total.narrow(axis, 1, last).add_(images.narrow(axis, 0, last))
        total.narrow(axis, 0, last).add_(images.narrow(axis, 1, last))
        for edge in (0, last):
            total.select(axis, edge).add_(images.select(axis, edge))
        images = total.mul_(0.25)
    return images
