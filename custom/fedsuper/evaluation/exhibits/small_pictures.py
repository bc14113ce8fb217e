"""Images and masks as small PNG files: cut to what matters, or whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedsuper.data.preprocess import WINDOW
from fedsuper.files import atomic_write

LARGEST_SIDE = 288
MARGIN = 0.3


def crop_window(masks: np.ndarray) -> tuple[int, int, int]:
    """Top, left and side of a square with a margin around everything that any mask `[N, H, W]` marks."""
    height, width = masks.shape[1:]
    rows, columns = np.flatnonzero(masks.any(axis=(0, 2))), np.flatnonzero(masks.any(axis=(0, 1)))
    if not len(rows):
        side = min(height, width)
        return (height - side) // 2, (width - side) // 2, side
    extent = max(rows[-1] - rows[0], columns[-1] - columns[0]) + 1
    side = int(min(max(extent * (1 + 2 * MARGIN), min(height, width) / 4), height, width))
    top = (rows[0] + rows[-1] + 1 - side) // 2
    left = (columns[0] + columns[-1] + 1 - side) // 2
    return int(np.clip(top, 0, height - side)), int(np.clip(left, 0, width - side)), side


def to_picture(pixels: np.ndarray) -> np.ndarray:
    """Intensities `[C, H, W]` as 8-bit `[H, W]` or `[H, W, 3]`: photographs as they are, others windowed."""
    if len(pixels) == 3 and pixels.min() >= 0 and pixels.max() <= 255:
        return pixels.round().astype(np.uint8).transpose(1, 2, 0)
    plane = pixels.mean(axis=0)
    low, high = np.percentile(plane, WINDOW)
    gray: np.ndarray = (np.clip((plane - low) / max(high - low, 1e-6), 0, 1) * 255).round().astype(np.uint8)
    return gray


def save_whole(path: Path, array: np.ndarray) -> None:
    """A picture at its own proportions, its longer side at most `LARGEST_SIDE`, as a JPEG: nothing is drawn on it."""
    from PIL import Image as Picture

    picture = Picture.fromarray(array)
    picture.thumbnail((LARGEST_SIDE, LARGEST_SIDE), Picture.Resampling.LANCZOS)
    atomic_write(path, lambda temporary: picture.save(temporary, "JPEG", quality=85))


def save_png(path: Path, array: np.ndarray, side: int, smooth: bool) -> None:
    """A square picture (`smooth`) or mask, `side` pixels wide."""
    from PIL import Image as Picture

    picture = Picture.fromarray(array if smooth else array.astype(np.uint8) * 255)
    if picture.width != side:
        how = Picture.Resampling.LANCZOS if smooth else Picture.Resampling.NEAREST
        picture = picture.resize((side, side), how)
    atomic_write(path, lambda temporary: picture.save(temporary, optimize=True))
