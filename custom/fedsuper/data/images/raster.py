"""PNG, JPEG, TIFF and BMP through Pillow: pixels as stored (8 or 16 bit), upright, without alpha."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image as Pillow
from PIL import ImageOps, UnidentifiedImageError

from fedsuper.data.images import plain_png
from fedsuper.data.images.decoding import check_size, decoding
from fedsuper.data.images.wide_color import is_wide, read_wide
from fedsuper.data.problems import DataProblem
from fedsuper.files import atomic_write_bytes

FORMATS = ("PNG", "JPEG", "TIFF", "BMP")  # pillow opens MPO, a JPEG with previews, as JPEG
ORIENTATION_TAG = 0x0112
GRAY_MODES = {"1", "L", "I", "F", "I;16", "I;16B", "I;16L", "I;16N"}


def read_pixels(path: Path) -> np.ndarray:
    """The pixels `[H, W, C]` of a photograph: upright by its EXIF tag, C = 1 or 3, alpha dropped."""
    with decoding(path):
        if (pixels := plain_png.decode(path)) is not None:
            return pixels
    with _opened(path) as picture:
        if is_wide(path, picture):
            return read_wide(path, _orientation(picture))
        return _upright_array(picture)


def read_indices(path: Path) -> np.ndarray:
    """The label values `[H, W]` of a lossless picture; a palette's indices are the labels, its colors are not."""
    with _opened(path) as picture:
        if picture.format in ("JPEG", "MPO") or picture.info.get("compression") == "jpeg":
            fix = "export the label again as PNG (converting the JPEG would keep its false values)"
            raise DataProblem(path, "is a JPEG label; JPEG changes label values", fix)
        if picture.mode == "P":
            return np.asarray(_upright(picture))
    pixels = read_pixels(path)
    if (pixels != pixels[..., :1]).any():
        what = "is a color picture, a label holds one whole number per pixel"
        raise DataProblem(path, what, "export it as a gray or palette PNG")
    return pixels[..., 0]


def exif_orientation(path: Path) -> int:
    """The EXIF orientation tag, 1 where there is none."""
    with _opened(path) as picture:
        return _orientation(picture)


def write_png(path: Path, mask: np.ndarray) -> None:
    """Write label values `[H, W]` as an 8-bit gray PNG, whole or not at all."""
    atomic_write_bytes(path, plain_png.encode(mask.astype(np.uint8, copy=False)))


@contextmanager
def _opened(path: Path) -> Iterator[Pillow.Image]:
    """The picture, its header read. Pillow gets an open file, because it misreads turned TIFFs that it maps itself."""
    with decoding(path), path.open("rb") as file:
        try:
            picture = Pillow.open(file, formats=FORMATS)
        except Pillow.DecompressionBombError:
            raise DataProblem(path, "claims more pixels than can be decoded safely", "crop or downsample it") from None
        except UnidentifiedImageError:
            fix = "it is torn or of another format: restore or export it again"
            raise DataProblem(path, f"is not a {', '.join(FORMATS)} picture", fix) from None
        pages = getattr(picture, "n_frames", 1)
        if pages > 1 and picture.format != "MPO":  # the further pictures of an MPO photograph are previews
            raise DataProblem(path, f"holds {pages} pages", "save a volume as NIfTI, or one picture per file")
        check_size(path, (*picture.size, len(picture.getbands())))
        yield picture


def _is_gray(picture: Pillow.Image) -> bool:
    return picture.mode in GRAY_MODES or picture.mode in ("LA", "La")


def _orientation(picture: Pillow.Image) -> int:
    if picture.format == "PNG" and not {"exif", "XML:com.adobe.xmp"} & set(picture.info):
        return 1  # asking further would decode the picture
    return int(picture.getexif().get(ORIENTATION_TAG, 1))


def _upright(picture: Pillow.Image) -> Pillow.Image:
    picture.load()  # first, because a TIFF turns itself on loading and must not be turned twice
    ImageOps.exif_transpose(picture, in_place=True)
    return picture


def _upright_array(picture: Pillow.Image) -> np.ndarray:
    upright = _upright(picture)
    if upright.mode not in GRAY_MODES:
        upright = upright.convert("L" if _is_gray(upright) else "RGB")
    pixels = np.asarray(upright)
    return pixels[..., None] if pixels.ndim == 2 else pixels
