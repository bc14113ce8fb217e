"""PNG, JPEG, TIFF and BMP through Pillow: pixels as stored (8 or 16 bit), upright, without alpha."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import numpy as np
from PIL import Image as Pillow
from PIL import ImageOps
from PIL.ImageFile import ImageFile

from fedsuper.data.decoding import check_size, decoding
from fedsuper.data.problems import DataProblem
from fedsuper.files import atomic_write

FORMATS = ("PNG", "JPEG", "TIFF", "BMP")  # pillow opens MPO, a JPEG with previews, as JPEG
ORIENTATION_TAG = 0x0112
WIDE_MODES = {f"{samples};16{order}" for samples in ("RGB", "RGBA", "RGBX") for order in "BLN"} | {"LA;16B"}
GREY_MODES = {"1", "L", "I", "F", "I;16", "I;16B", "I;16L", "I;16N"}


def read_pixels(path: Path) -> np.ndarray:
    """The pixels `[H, W, C]` of a photograph: upright by its EXIF tag, C = 1 or 3, alpha dropped."""
    with _opened(path) as picture:
        mode = _raw_mode(picture)
        if mode not in WIDE_MODES:
            return _upright_array(picture)
    return _wide_colours(path, mode)


def read_indices(path: Path) -> np.ndarray:
    """The label values `[H, W]` of a lossless picture; a palette's indices are the labels, its colours are not."""
    with _opened(path) as picture:
        if picture.format in ("JPEG", "MPO") or picture.info.get("compression") == "jpeg":
            fix = "export the label again as PNG (converting the JPEG would keep its false values)"
            raise DataProblem(path, "is a JPEG label; JPEG changes label values", fix)
        if picture.mode == "P":
            return np.asarray(_upright(picture))
    pixels = read_pixels(path)
    if (pixels != pixels[..., :1]).any():
        what = "is a colour picture, a label holds one whole number per pixel"
        raise DataProblem(path, what, "export it as a grey or palette PNG")
    return pixels[..., 0]


def probe_raster(path: Path) -> tuple[int, int, int]:
    """Height, width and channels, from the file's header alone."""
    with _opened(path) as picture:
        width, height = picture.size
        if picture.format != "TIFF" and _orientation(picture) in (5, 6, 7, 8):  # a TIFF's size is the upright one
            width, height = height, width
        return height, width, 1 if _is_grey(picture) else 3


def exif_orientation(path: Path) -> int:
    """The EXIF orientation tag, 1 where there is none."""
    with _opened(path) as picture:
        return _orientation(picture)


def write_png(path: Path, mask: np.ndarray) -> None:
    """Write label values `[H, W]` as an 8-bit grey PNG, whole or not at all."""
    atomic_write(path, lambda temporary: Pillow.fromarray(mask.astype(np.uint8)).save(temporary, format="PNG"))


@contextmanager
def _opened(path: Path) -> Iterator[Pillow.Image]:
    """The picture, its header read. Pillow gets an open file, because it misreads turned TIFFs that it maps itself."""
    with decoding(path), path.open("rb") as file:
        try:
            picture = Pillow.open(file, formats=FORMATS)
        except Pillow.DecompressionBombError:
            raise DataProblem(path, "claims more pixels than can be decoded safely", "crop or downsample it") from None
        except Pillow.UnidentifiedImageError:
            fix = "it is torn or of another format: restore or export it again"
            raise DataProblem(path, f"is not a {', '.join(FORMATS)} picture", fix) from None
        pages = getattr(picture, "n_frames", 1)
        if pages > 1 and picture.format != "MPO":  # the further pictures of an MPO photograph are previews
            raise DataProblem(path, f"holds {pages} pages", "save a volume as NIfTI, or one picture per file")
        check_size(path, (*picture.size, len(picture.getbands())))
        yield picture


def _is_grey(picture: Pillow.Image) -> bool:
    return picture.mode in GREY_MODES or picture.mode in ("LA", "La")


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
    if upright.mode not in GREY_MODES:
        upright = upright.convert("L" if _is_grey(upright) else "RGB")
    pixels = np.asarray(upright)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _raw_mode(picture: Pillow.Image) -> str:
    """How the file packs its pixels, in Pillow's terms (`RGB;16B`: three samples of 16 bits, high byte first)."""
    tiles = getattr(picture, "tile", None)
    if not tiles or not tiles[0].args:
        return ""
    arguments = tiles[0].args
    return arguments if isinstance(arguments, str) else str(arguments[0])


def _wide_colours(path: Path, mode: str) -> np.ndarray:
    """The pixels of a 16-bit colour picture.

    Pillow decodes 48- and 64-bit pixels but keeps one byte of each sample: the byte that is high in the byte order
    named by the raw mode. Decoding twice, once per byte order, gives both bytes.
    """
    if mode == "LA;16B":  # two bytes of grey, two of alpha, read as if they were four samples of one byte
        samples = _decode_as(path, "RGBA").astype(np.uint16)
        return (samples[..., 0] << 8 | samples[..., 1])[..., None]
    high = _decode_as(path, mode)[..., :3].astype(np.uint16)
    low = _decode_as(path, mode[:-1] + ("L" if mode.endswith("B") else "B"))[..., :3]
    return high << 8 | low


def _decode_as(path: Path, mode: str) -> np.ndarray:
    with _opened(path) as opened:
        picture = cast(ImageFile, opened)
        picture.tile = [
            tile._replace(args=mode if isinstance(tile.args, str) else (mode, *(tile.args or ())[1:]))
            for tile in picture.tile
        ]
        return np.asarray(_upright(picture))
