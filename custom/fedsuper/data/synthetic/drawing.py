"""What pictures are drawn with: pixel grids, blurs, dots and clouds, for a stack of images at a time.

What is thin or small (vessels, exudates) is splatted as points and widened by a Gaussian, which costs two small matrix
products an image instead of a distance field for every line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Points = NDArray[np.floating]


@dataclass(frozen=True)
class Grid:
    """Pixel centers."""

    size: int

    @property
    def x(self) -> Floats:
        return ((np.arange(self.size) + 0.5) / self.size).astype(np.float32)[None, None, :]

    @property
    def y(self) -> Floats:
        return self.x.transpose(0, 2, 1)


def gaussian_matrix(size: int, sigma: float) -> Floats:
    """The matrix G with which G @ image @ G.T blurs an image by `sigma` (a fraction of the width); rows add up to 1."""
    step = (np.arange(size)[:, None] - np.arange(size)[None, :]) / size
    weights = np.exp(-0.5 * (step / max(sigma, 0.3 / size)) ** 2)
    return np.asarray((weights / weights.sum(axis=1, keepdims=True)).astype(np.float32))


def blur(stack: Floats, sigma: float) -> Floats:
    """Blur the last two axes."""
    kernel = gaussian_matrix(stack.shape[-1], sigma)
    return np.asarray(np.matmul(np.matmul(kernel, stack), kernel.T))


def splat(x: Floats, y: Floats, weight: Floats, size: int) -> Floats:
    """Add points (image, point) to empty images, each spread over its four nearest pixels; outside is dropped."""
    count = len(x)
    column, row = x * size - 0.5, y * size - 0.5
    left, top = np.floor(column).astype(np.int64), np.floor(row).astype(np.int64)
    right_part, lower_part = column - left, row - top
    image = np.arange(count)[:, None] * size * size
    canvas = np.zeros(count * size * size)
    for down, vertical in ((0, 1 - lower_part), (1, lower_part)):
        for across, horizontal in ((0, 1 - right_part), (1, right_part)):
            r, c = top + down, left + across
            seen = (r >= 0) & (r < size) & (c >= 0) & (c < size)
            place = (image + r * size + c)[seen]
            canvas += np.bincount(place, (weight * vertical * horizontal)[seen], minlength=len(canvas))
    return canvas.reshape(count, size, size).astype(np.float32)


def smooth_noise(count: int, size: int, cells: int, rng: np.random.Generator) -> Floats:
    """Slowly varying noise of about unit spread: a coarse grid of normals, widened to the picture."""
    centers = (np.arange(cells) + 0.5) / cells
    weights = np.exp(-0.5 * (((np.arange(size) + 0.5) / size)[:, None] - centers[None, :]) ** 2 * (1.6 * cells) ** 2)
    weights = (weights / np.sqrt((weights**2).sum(axis=1, keepdims=True))).astype(np.float32)
    return np.asarray(weights @ rng.standard_normal((count, cells, cells), dtype=np.float32) @ weights.T)


def opacity_of_dots(x: Floats, y: Floats, weight: Floats, size: int, width: float, pixels: float) -> Floats:
    """1 - exp(-sum of Gaussians) for dots of peak `weight`, `width` wide but no narrower than so many `pixels`."""
    sigma = max(width, pixels / size)
    return np.asarray(1 - np.exp(-blur(splat(x, y, weight, size), sigma) * np.float32(2 * np.pi * (sigma * size) ** 2)))
