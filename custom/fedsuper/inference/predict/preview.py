"""One picture that shows at a glance what was segmented: thumbnails with the mask drawn over them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedsuper.data.images.io import Image
from fedsuper.files import atomic_write

if TYPE_CHECKING:
    from PIL import ImageFont
    from PIL.Image import Image as Picture

COLORS = np.array([[0, 0, 0], [0, 190, 120], [70, 170, 255], [255, 170, 0], [230, 70, 160], [160, 220, 60]])
SIDE = 192
CAPTION = 28
COLUMNS = 6
LIMIT = 30
RED, BORDER = "#ff3b30", 4  # around an image that a person should look at


@dataclass
class ContactSheet:
    """Thumbnails of up to 30 images spread evenly over a run; a volume is shown by the slice with most foreground."""

    total: int
    tiles: dict[int, Picture] = field(default_factory=dict)

    def wants(self, index: int) -> bool:
        """Whether the image at this place of the run is one of those shown."""
        return index * LIMIT // self.total != (index - 1) * LIMIT // self.total or self.total <= LIMIT

    def add(self, number: int, image: Image, labels: np.ndarray, model: str, review: bool = False) -> None:
        """Draw the image at place `number` with its label map `[Z, H, W]`; a red border asks a person to look."""
        from PIL import Image as Pillow
        from PIL import ImageDraw

        best = int((labels > 0).sum(axis=(1, 2)).argmax())
        scale = SIDE / max(image.size)
        size = (max(1, round(image.size[1] * scale)), max(1, round(image.size[0] * scale)))
        step = max(1, max(image.size) // (4 * SIDE))  # enough for a thumbnail; a large photograph is not copied whole
        shown = Pillow.fromarray(as_rgb(image.array[best, :, ::step, ::step])).resize(size, Pillow.Resampling.BILINEAR)
        values = Pillow.fromarray(labels[best]).resize(size, Pillow.Resampling.NEAREST)
        picture = Pillow.fromarray(overlay(np.asarray(shown), np.asarray(values)))
        tile = Pillow.new("RGB", (SIDE, SIDE + CAPTION), "black")
        tile.paste(picture, ((SIDE - picture.width) // 2, (SIDE - picture.height) // 2))
        draw = ImageDraw.Draw(tile)
        for line, text in enumerate((image.path.name, model)):
            draw.text((4, SIDE + 1 + 13 * line), _latin(text), fill=RED if review else "white", font=_font())
        if review:
            draw.rectangle((0, 0, SIDE - 1, SIDE + CAPTION - 1), outline=RED, width=BORDER)
        self.tiles[number] = tile

    def save(self, path: Path) -> None:
        """Write the sheet as a JPEG (so that the PNG files of the folder are masks and nothing else)."""
        from PIL import Image as Pillow

        columns = min(COLUMNS, len(self.tiles))
        rows = -(-len(self.tiles) // columns)
        sheet = Pillow.new("RGB", (columns * SIDE, rows * (SIDE + CAPTION)), "black")
        for index, (_, tile) in enumerate(sorted(self.tiles.items())):
            sheet.paste(tile, (index % columns * SIDE, index // columns * (SIDE + CAPTION)))
        atomic_write(path, lambda temporary: sheet.save(temporary, format="JPEG", quality=88))


def as_rgb(pixels: np.ndarray) -> np.ndarray:
    """A slice `[C, H, W]` in any intensities as 8-bit RGB `[H, W, 3]`, by a percentile window over all channels."""
    planes = pixels if len(pixels) == 3 else np.repeat(pixels[:1], 3, axis=0)
    step = max(1, 3 * max(planes.shape) // SIDE)  # a grid of pixels tells the window as well as all of them
    low, high = np.percentile(planes[:, ::step, ::step], (0.5, 99.5)).astype(np.float32)
    stretched = (planes.transpose(1, 2, 0) - low) * (255 / max(high - low, 1e-6))
    return np.asarray(stretched.round().clip(0, 255), np.uint8)


def overlay(picture: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """RGB `[H, W, 3]` tinted by label value, with the labels' borders in full color."""
    inside = labels > 0
    border = np.zeros(labels.shape, dtype=bool)
    for one, other in (((slice(1, None),), (slice(-1),)), ((slice(None), slice(1, None)), (slice(None), slice(-1)))):
        differs = labels[one] != labels[other]
        border[one] |= differs
        border[other] |= differs
    drawn = picture.copy()
    colors = COLORS[(labels[inside].astype(int) - 1) % (len(COLORS) - 1) + 1]
    drawn[inside] = np.where(border[inside][:, None], colors, (0.8 * picture[inside] + 0.2 * colors).round())
    return drawn


@cache
def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own font, unpacked once and not for every tile."""
    from PIL import ImageFont

    return ImageFont.load_default()


def _latin(text: str, limit: int = 30) -> str:
    """What the built-in font can draw."""
    shown = text if len(text) <= limit else text[: limit - 1] + "~"
    return shown.encode("latin-1", "replace").decode("latin-1")
