"""16-bit color, which Pillow would cut to 8 bits: PNG by imagecodecs, TIFF by tifffile (extra `formats`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from fedsuper.data.images.decoding import FORMATS_EXTRA, needed

PNG_HEADER = 26  # bytes: signature, IHDR with width, height, bit depth, color type
PNG_COLORS = (2, 4, 6)  # RGB, gray with alpha, RGB with alpha
BITS_PER_SAMPLE, SAMPLES_PER_PIXEL = 258, 277  # TIFF tags


def is_wide(path: Path, picture: Pillow.Image) -> bool:
    """Whether a picture, its header read by Pillow, has several samples of 16 bits a pixel."""
    if picture.format == "PNG":
        with path.open("rb") as file:
            header = file.read(PNG_HEADER)
        return header[24] == 16 and header[25] in PNG_COLORS
    if picture.format == "TIFF":
        tags = picture.tag_v2  # type: ignore[attr-defined]
        return bool(tags.get(SAMPLES_PER_PIXEL, 1) > 1 and max(tags.get(BITS_PER_SAMPLE, (1,))) == 16)
    return False


def read_wide(path: Path, orientation: int) -> NDArray[np.uint16]:
    """The samples uint16 `[H, W, C]` of a 16-bit picture, upright by its EXIF orientation, alpha dropped."""
    if path.suffix.lower() == ".png":
        pixels = needed("imagecodecs", path, FORMATS_EXTRA).png_decode(path.read_bytes())
    else:
        tifffile = needed("tifffile", path, FORMATS_EXTRA)
        with tifffile.TiffFile(path) as file:
            page = file.pages.first
            pixels = page.asarray()
            if page.planarconfig == tifffile.PLANARCONFIG.SEPARATE:
                pixels = np.moveaxis(pixels, 0, -1)
    color = pixels[..., :3] if pixels.shape[-1] > 2 else pixels[..., :1]
    return _upright(np.asarray(color, dtype=np.uint16), orientation)


def _upright(pixels: NDArray[np.uint16], orientation: int) -> NDArray[np.uint16]:
    """Undo the turning that the EXIF orientation (1 to 8) names; 5 to 8 exchange rows and columns."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    down, across = {2: (1, -1), 3: (-1, -1), 4: (-1, 1), 6: (1, -1), 7: (-1, -1), 8: (-1, 1)}.get(orientation, (1, 1))
    return pixels[::down, ::across]
