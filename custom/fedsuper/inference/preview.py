"""One picture that shows at a glance what was segmented: thumbnails with the mask drawn over them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedsuper.data.image_io import Image
from fedsuper.files import atomic_write

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

COLOURS = np.array([[0, 0, 0], [0, 190, 120], [255, 170, 0], [80, 140, 255], [230, 70, 160], [160, 220, 60]])
SIDE = 192
CAPTION = 28
COLUMNS = 6
LIMIT = 30


@dataclass
class ContactSheet:
    """Collects the first images of a run as thumbnails; a volume is shown by the slice with most foreground."""

    tiles: list[Picture] = field(default_factory=list)

    def add(self, image: Image, labels: np.ndarray, model: str) -> None:
        """Draw one image with its label map `[Z, H, W]` and the model's name; beyond the limit nothing happens."""
        if len(self.tiles) >= LIMIT:
            return
        from PIL import Image as Pillow
        from PIL import ImageDraw

        best = int((labels > 0).sum(axis=(1, 2)).argmax())
        picture = Pillow.fromarray(overlay(image.array[best], labels[best]))
        picture.thumbnail((SIDE, SIDE))
        tile = Pillow.new("RGB", (SIDE, SIDE + CAPTION), "black")
        tile.paste(picture, ((SIDE - picture.width) // 2, (SIDE - picture.height) // 2))
        draw = ImageDraw.Draw(tile)
        for line, text in enumerate((image.path.name, model)):
            draw.text((4, SIDE + 1 + 13 * line), _latin(text), fill="white")
        self.tiles.append(tile)

    def save(self, path: Path) -> None:
        """Write the sheet as a JPEG (so that the PNG files of the folder are masks and nothing else)."""
        from PIL import Image as Pillow

        columns = min(COLUMNS, len(self.tiles))
        rows = -(-len(self.tiles) // columns)
        sheet = Pillow.new("RGB", (columns * SIDE, rows * (SIDE + CAPTION)), "black")
        for index, tile in enumerate(self.tiles):
            sheet.paste(tile, (index % columns * SIDE, index // columns * (SIDE + CAPTION)))
        atomic_write(path, lambda temporary: sheet.save(temporary, format="JPEG", quality=88))


def overlay(pixels: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """A slice `[C, H, W]` as 8-bit RGB `[H, W, 3]`, tinted by label value, with the labels' borders in full colour."""
    planes = pixels if len(pixels) == 3 else np.repeat(pixels[:1], 3, axis=0)
    low, high = np.percentile(planes, (0.5, 99.5))
    grey = np.clip((planes - low) / max(high - low, 1e-6), 0, 1).transpose(1, 2, 0) * 255
    colour = COLOURS[np.where(labels > 0, (labels.astype(int) - 1) % (len(COLOURS) - 1) + 1, 0)]
    border = np.zeros(labels.shape, dtype=bool)
    border[1:] |= labels[1:] != labels[:-1]
    border[:, 1:] |= labels[:, 1:] != labels[:, :-1]
    share = np.where(border & (labels > 0), 1.0, np.where(labels > 0, 0.25, 0.0))[..., None]
    return ((1 - share) * grey + share * colour).round().astype(np.uint8)


def _latin(text: str, limit: int = 30) -> str:
    """What the built-in font can draw."""
    shown = text if len(text) <= limit else text[: limit - 1] + "~"
    return shown.encode("latin-1", "replace").decode("latin-1")
