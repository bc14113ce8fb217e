"""phi(x): what tells one scanner's images from another's, in about a hundred numbers an image.

Mean and standard deviation over pixels of what the first two convolutions of the global model write (before any
normalization, which would subtract the very site that is to be recognized), and of the input itself, per channel:
mean, standard deviation, five quantiles, mean absolute gradients and Laplacian. The convolutions are trained by all
sites together and are the same everywhere, so features from different sites can be added.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

LAYERS = 2
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
GRID = 64  # quantiles are read on a grid of so many pixels a side, or up to twice as many: more tell nothing new
PER_CHANNEL = 2 + len(QUANTILES) + 3


class _Enough(Exception):  # noqa: N818  (no error: what is needed of the net has been seen)
    """The rest of the net need not run."""


@dataclass(frozen=True)
class Measured:
    """Maps `[N, C, H, W]`, their means and variances over pixels `[N, C]`, and their pixels `[N, C, H W]` about the
    means.
    """

    maps: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor
    centered: torch.Tensor

    @classmethod
    def of(cls, maps: torch.Tensor) -> Measured:
        """All at once: each is a pass over the pixels, and torch's own variance takes as long as ten."""
        pixels = maps.flatten(2)
        mean = pixels.mean(dim=2)
        centered = pixels - mean[..., None]
        return cls(maps, mean, centered.square().mean(dim=2), centered)

    def moments(self) -> torch.Tensor:
        """Mean and standard deviation: `[N, 2C]`."""
        return torch.cat([self.mean, self.variance.sqrt()], dim=1)


class _LastMeasured(threading.local):
    """What a thread has measured of a convolution's maps, for the norm that gets the very same maps next."""

    found: Measured | None = None


_last = _LastMeasured()


class QuickInstanceNorm(nn.Module):
    """(x - mean) / sqrt(var + eps) over pixels, as `nn.InstanceNorm2d` up to rounding, in a quarter of its time."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """Every map of `[N, C, H, W]` with mean 0 and spread 1."""
        known, _last.found = _last.found, None
        found = known if known is not None and known.maps is maps else Measured.of(maps)
        spread = found.variance[..., None].add(self.eps).rsqrt_()
        return found.centered.mul_(spread).view_as(maps)


class ImageFeatures(nn.Module):
    """phi of a batch `[N, C, H, W]` as `[N, d]`, computed with a segmentation net's first convolutions.

    The net is its own: what lies between the convolutions is exchanged for what is faster.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        for parent in list(net.modules()):
            for name, child in parent.named_children():
                if type(child) is nn.InstanceNorm2d and not (child.affine or child.track_running_stats):
                    setattr(parent, name, QuickInstanceNorm(child.eps))
        self.layers = [module for module in net.modules() if isinstance(module, nn.Conv2d)][:LAYERS]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The features of every image."""
        return torch.cat([*self._first_moments(images), input_statistics(images.float())], dim=1)

    def _first_moments(self, images: torch.Tensor) -> list[torch.Tensor]:
        """Taken as soon as a convolution has written, while its maps are still in the processor's cache."""
        seen: dict[nn.Module, torch.Tensor] = {}
        mine = threading.get_ident()  # hooks are called by every thread that runs the net

        def keep(layer: nn.Module, _: object, output: torch.Tensor) -> None:
            if threading.get_ident() != mine:
                return
            if len(seen) < len(self.layers) - 1:
                _last.found = Measured.of(output.float())
                seen[layer] = _last.found.moments()
            else:
                seen[layer] = moments(output.float())  # nobody needs its pixels
            # A tracer cannot be left half-way; it drops what nothing reads by itself.
            if len(seen) == len(self.layers) and not torch.compiler.is_exporting():
                raise _Enough

        hooks = [layer.register_forward_hook(keep) for layer in self.layers]
        try:
            self.net(images)
        except _Enough:
            pass
        finally:
            _last.found = None
            for hook in hooks:
                hook.remove()
        return [seen[layer] for layer in self.layers]


def moments(maps: torch.Tensor) -> torch.Tensor:
    """Mean and standard deviation over pixels of `[N, C, H, W]`: `[N, 2C]`."""
    pixels = maps.flatten(2)
    mean = pixels.mean(dim=2)
    spread = (pixels - mean[..., None]).square_().mean(dim=2).sqrt_()  # ten times faster than torch's own std
    return torch.cat([mean, spread], dim=1)


def input_statistics(images: torch.Tensor) -> torch.Tensor:
    """Per channel: mean, standard deviation, quantiles, mean |dx|, |dy| and |Laplacian|: `[N, 10 C]`."""
    apart = max(1, min(images.shape[2:]) // GRID)
    grid = images[:, :, ::apart, ::apart].flatten(2)
    ranks = [round(point * (grid.shape[2] - 1)) for point in QUANTILES]
    quantiles = order_statistics(grid, ranks).flatten(1)
    across = (images[..., 1:] - images[..., :-1]).abs_().mean(dim=(2, 3))
    down = (images[:, :, 1:] - images[:, :, :-1]).abs_().mean(dim=(2, 3))
    beside = images[:, :, :-2, 1:-1] + images[:, :, 2:, 1:-1]
    beside.add_(images[:, :, 1:-1, :-2]).add_(images[:, :, 1:-1, 2:])
    curved = beside.sub_(images[:, :, 1:-1, 1:-1], alpha=4).abs_().mean(dim=(2, 3))
    return torch.cat([moments(images), quantiles, across, down, curved], dim=1)


def order_statistics(pixels: torch.Tensor, ranks: list[int]) -> torch.Tensor:
    """The values of these ranks along the last axis. On a CPU numpy sorts many values at a time: it takes a twentieth
    of torch's time, and an eighth of that of a selection, which looks at one after the other.

    A net that is being exported takes torch's sort, which other tools know; the values are the same.
    """
    if pixels.device.type != "cpu" or torch.compiler.is_compiling():
        return pixels.sort(dim=-1).values[..., ranks]
    return torch.from_numpy(np.sort(pixels.detach().numpy(), axis=-1)[..., ranks])
