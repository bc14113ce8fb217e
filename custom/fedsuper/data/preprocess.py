"""From native pixels to the network's square input and back.

Images are resized first (bilinear with anti-aliasing) and normalized then, so what the network sees has exactly the
statistics it was promised. The square ignores the aspect ratio, as both papers do; `restore_probabilities` undoes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import torch
from torch.nn import functional

from fedsuper.data.doctor.task_fit import match_channels
from fedsuper.data.images.io import Image
from fedsuper.data.preprocess_settings import Normalize, Preprocess

__all__ = ["WINDOW", "Preprocess", "prepare_image", "prepare_label", "regions_to_labels", "restore_probabilities"]

LABELS_AT_ONCE = 2**22  # pixels whose label is looked for together: what bounds the memory of a large image
WINDOW = (0.5, 99.5)  # the percentiles that `percentile` maps to 0 and 1


def prepare_image(image: Image, p: Preprocess, channels: int) -> torch.Tensor:
    """The network's input, float32 `[Z, C * slices, S, S]`.

    The z-score is taken over all channels together, so the tint of a camera, which tells sites apart, survives.
    A constant image becomes zeros.
    """
    square = _squares(match_channels(image.array, channels, image.path), p.image_size)
    if p.scope == "volume" or len(square) == 1:
        square = _normalize(square, p.normalize)
    else:
        square = torch.stack([_normalize(one, p.normalize) for one in square])
    return square if p.slices == 1 else _with_neighbors(square)


def prepare_label(label_zhw: np.ndarray, regions: Mapping[str, tuple[int, ...]], p: Preprocess) -> torch.Tensor:
    """Region masks, uint8 `[Z, R, S, S]`, from label values `[Z, H, W]`.

    Each region is resampled by area: c is the share of an output pixel that the region covers, exactly. The pixel is in
    the region where c >= 1/2; and, in a 3x3 neighborhood that no pixel covers by half, where c is at least half of the
    neighborhood's largest share. A structure thinner than an output pixel thus stays one pixel thick instead of
    vanishing, and thick structures keep their area. Regions that nest by definition nest afterwards.
    """
    size = p.image_size
    if label_zhw.shape[1:] == (size, size):
        masks = [torch.from_numpy(np.isin(label_zhw, values)) for values in regions.values()]
        return torch.stack(masks, dim=1).to(torch.uint8)
    masks = []
    for values in regions.values():
        native = torch.from_numpy(np.isin(label_zhw, values).astype(np.float32))
        share = _overlap(native.shape[1], size) @ native @ _overlap(native.shape[2], size).T
        highest = functional.max_pool2d(share[:, None], 3, stride=1, padding=1)[:, 0]
        threshold = torch.where(highest < 0.5 - 1e-5, highest / 2, 0.5).clamp_min(1e-6)
        masks.append(share >= threshold - 1e-5 * threshold)
    for i, outer in enumerate(regions.values()):
        for j, inner in enumerate(regions.values()):
            if set(inner) < set(outer):
                masks[i] = masks[i] | masks[j]
    return torch.stack(masks, dim=1).to(torch.uint8)


def restore_probabilities(probabilities: torch.Tensor, native: tuple[int, int]) -> torch.Tensor:
    """Probabilities `[Z, R, S, S]` at the image's own height and width: float32 `[Z, R, H, W]`, bilinear."""
    return _resize(probabilities.float(), native)


def regions_to_labels(
    probabilities: torch.Tensor | np.ndarray, regions: Mapping[str, tuple[int, ...]], threshold: float = 0.5
) -> np.ndarray:
    """The label map, uint8 `[Z, H, W]`, whose values reproduce the thresholded regions of `[Z, R, H, W]`.

    With m(v) the regions that hold value v, a pixel whose regions b equal some m(v) gets that v (the smallest). Where
    no value says b exactly, values with m(v) containing b are preferred (nested regions: the inner one wins, the outer
    is added) and the likeliest of them is taken: argmax_v sum_r log p_r over r in m(v) plus log(1 - p_r) elsewhere.
    """
    p = torch.as_tensor(probabilities).detach().to("cpu", torch.float32).movedim(1, -1).numpy()  # [Z, H, W, R]
    labels = np.empty(p.shape[:3], dtype=np.uint8)
    rows = max(1, LABELS_AT_ONCE // max(1, p.shape[0] * p.shape[2]))
    for first in range(0, p.shape[1], rows):
        labels[:, first : first + rows] = _labels(p[:, first : first + rows], regions, threshold)
    return labels


def _labels(p: np.ndarray, regions: Mapping[str, tuple[int, ...]], threshold: float) -> np.ndarray:
    values, members, said = _codebook(tuple(map(tuple, regions.values())))
    count = members.shape[1]
    bits = 1 << np.arange(count, dtype=np.int64)
    if count <= 8:
        codes = (p[..., 0] >= threshold).view(np.uint8)
        for index in range(1, count):
            codes |= (p[..., index] >= threshold).view(np.uint8) << np.uint8(index)
        table = bytes(said.get(code, 0) for code in range(256))
        labels = np.frombuffer(bytearray(codes).translate(table), dtype=np.uint8).reshape(codes.shape)
    else:
        codes = (p >= threshold) @ bits
        labels = np.zeros(codes.shape, dtype=np.uint8)
        for code, value in said.items():
            labels[codes == code] = value
    possible = range(1 << count) if count <= 3 else np.unique(codes).tolist()
    for code in possible:
        if code in said or not (here := codes == code).any():
            continue
        wanted = (code & bits) != 0
        containing = (members | ~wanted).all(axis=1)
        candidates = np.flatnonzero(containing if containing.any() else np.ones(len(values), dtype=bool))
        clipped = np.clip(p[here], 1e-6, 1 - 1e-6)
        score = np.log(clipped) @ members[candidates].T + np.log1p(-clipped) @ ~members[candidates].T
        labels[here] = np.array(values, dtype=np.uint8)[candidates[score.argmax(axis=1)]]
    return labels


@lru_cache(maxsize=16)
def _codebook(regions: tuple[tuple[int, ...], ...]) -> tuple[list[int], np.ndarray, dict[int, int]]:
    """The label values, `[values, regions]` whether each is in each, and the smallest value that says a set of regions.

    A set of regions is a number: region r is its bit r.
    """
    values = [0, *sorted({value for covered in regions for value in covered})]
    members = np.array([[value in covered for covered in regions] for value in values])
    said = {sum(int(inside) << bit for bit, inside in enumerate(members[place])): values[place]
            for place in reversed(range(len(values)))}
    return values, members, said


def _squares(stack: np.ndarray, side: int) -> torch.Tensor:
    """The planes of `[Z, C, H, W]` at `side` by `side`: one by one, so that no large image is in float32 as a whole."""
    squares = torch.empty(*stack.shape[:2], side, side)
    if stack.shape[2:] == (side, side):
        squares.numpy()[:] = stack
        return squares
    for index in np.ndindex(stack.shape[:2]):
        plane = torch.from_numpy(np.ascontiguousarray(stack[index], dtype=np.float32))
        squares[index] = _resize(plane[None, None], (side, side))[0, 0]
    return squares


def _resize(stack: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    if tuple(stack.shape[2:]) == tuple(size):
        return stack
    return functional.interpolate(stack, size=size, mode="bilinear", align_corners=False, antialias=True)


def _normalize(values: torch.Tensor, how: Normalize) -> torch.Tensor:
    wide = values.double()
    if how == "zscore":
        low, span = wide.mean(), wide.std(correction=0)
    elif how == "minmax":
        low, span = wide.min(), wide.max() - wide.min()
    else:
        first, last = np.percentile(wide.numpy(), WINDOW)
        wide = wide.clamp(first, last)
        low, span = torch.tensor(first), torch.tensor(last - first)
    least, most = wide.aminmax()
    if span <= 1e-6 * max(abs(float(least)), abs(float(most))):  # constant, up to what float32 can tell
        return torch.zeros_like(values)
    return wide.sub_(low).div_(span).float()


def _with_neighbors(stack: torch.Tensor) -> torch.Tensor:
    """Each slice with the one before and the one after as further channels; the ends repeat themselves."""
    before = torch.cat([stack[:1], stack[:-1]])
    after = torch.cat([stack[1:], stack[-1:]])
    return torch.cat([before, stack, after], dim=1)


@lru_cache(maxsize=64)
def _overlap(source: int, target: int) -> torch.Tensor:
    """`[target, source]`: the share of each target pixel that each source pixel covers, along one axis."""
    edges = torch.arange(target + 1, dtype=torch.float64) * source / target
    pixels = torch.arange(source, dtype=torch.float64)
    length = torch.minimum(edges[1:, None], pixels + 1) - torch.maximum(edges[:-1, None], pixels)
    return (length.clamp_min(0) * target / source).float()
