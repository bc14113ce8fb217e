"""A small picture with real images above synthetic ones, the borders of their regions drawn on a second copy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from fedsuper.data.prepared.samples import Samples
from fedsuper.files import atomic_write_bytes
from fedsuper.studies.facts.learning_curve import take

LINE = (90, 255, 90)


def write_side_by_side(path: Path, real: Samples, synthetic: Samples, across: int = 8) -> None:
    """Two rows of `across` real images (bare, outlined), then two rows of synthetic ones."""
    import io

    from PIL import Image

    rows = [row for samples in (real, synthetic) for row in _rows(samples, across)]
    buffer = io.BytesIO()
    Image.fromarray(np.concatenate(rows)).save(buffer, "JPEG", quality=88)
    atomic_write_bytes(path, buffer.getvalue())


def _rows(samples: Samples, across: int) -> list[np.ndarray]:
    chosen = take(samples, [round(place * (len(samples) - 1) / (across - 1)) for place in range(across)])
    bare = [_picture(image) for image in chosen.images]
    lined = [_outlined(image, mask.numpy()) for image, mask in zip(bare, chosen.masks, strict=True)]
    return [np.concatenate(bare, axis=1), np.concatenate(lined, axis=1)]


def _picture(image: torch.Tensor) -> np.ndarray:
    """Eight bits for the eye: from the darkest half percent to the brightest."""
    pixels = image.numpy().transpose(1, 2, 0)
    low, high = np.quantile(pixels, (0.005, 0.995))
    shown = (np.clip((pixels - low) / max(high - low, 1e-6), 0, 1) * 255).astype(np.uint8)
    return np.repeat(shown, 3, axis=2) if shown.shape[2] == 1 else shown


def _outlined(picture: np.ndarray, masks: np.ndarray) -> np.ndarray:
    lined = picture.copy()
    for mask in masks.astype(bool):
        inner = mask.copy()
        for axis in (0, 1):
            for step in (1, -1):
                inner &= np.roll(mask, step, axis)
        lined[mask & ~inner] = LINE
    return lined
