"""Slices, masks and differences as PNG bytes; a mask is transparent where there is nothing, so that the page can lay
it over the image at any opacity."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image as Pillow

from fedsuper.inference.predict.preview import COLORS, as_rgb

LONGEST_SIDE = 1024
DIFFERENCE = (255, 60, 60)


def slice_png(pixels: np.ndarray) -> bytes:
    """A slice `[C, H, W]` in any intensities, windowed by its percentiles."""
    return _png(Pillow.fromarray(as_rgb(pixels)), Pillow.Resampling.BILINEAR)


def mask_png(labels: np.ndarray) -> bytes:
    """A label map `[H, W]` in the colors of its values, transparent at 0."""
    color = COLORS[np.where(labels > 0, (labels.astype(int) - 1) % (len(COLORS) - 1) + 1, 0)]
    return _transparent(color, labels > 0)


def difference_png(labels: np.ndarray, others: np.ndarray) -> bytes:
    """Where two label maps differ."""
    differs = labels != others
    return _transparent(np.broadcast_to(np.array(DIFFERENCE), (*labels.shape, 3)), differs)


def agreement(labels: np.ndarray, others: np.ndarray) -> float:
    """Dice of two masks' foreground; two empty masks agree."""
    ours, theirs = labels > 0, others > 0
    total = int(ours.sum() + theirs.sum())
    return 1.0 if total == 0 else 2 * int((ours & theirs & (labels == others)).sum()) / total


def _transparent(color: np.ndarray, where: np.ndarray) -> bytes:
    alpha = np.where(where, 255, 0)[..., None]
    return _png(Pillow.fromarray(np.concatenate([color, alpha], axis=2).astype(np.uint8)), Pillow.Resampling.NEAREST)


def _png(picture: Pillow.Image, how: Pillow.Resampling) -> bytes:
    longest = max(picture.size)
    if longest > LONGEST_SIDE:
        scale = LONGEST_SIDE / longest
        picture = picture.resize((max(1, round(picture.width * scale)), max(1, round(picture.height * scale))), how)
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", compress_level=3)
    return buffer.getvalue()
