"""Plain PNG files by libpng: the pixels Pillow reads, and everything that is not plain left to Pillow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from fedsuper.data.images import plain_png
from fedsuper.data.images.raster import read_pixels, write_png
from fedsuper.data.problems import DataProblem

PIXELS = np.random.default_rng(0).integers(0, 256, (19, 23, 3), dtype=np.uint8)


@pytest.fixture(autouse=True)
def _libpng() -> None:
    pytest.importorskip("imagecodecs")


def saved(path: Path, picture: Image.Image, **how: Any) -> Path:
    picture.save(path, **how)
    return path


@pytest.mark.parametrize("pixels", [PIXELS, PIXELS[..., 0]], ids=["RGB", "gray"])
def test_pixels_are_pillows(pixels: np.ndarray, tmp_path: Path) -> None:
    path = saved(tmp_path / "a.PNG", Image.fromarray(pixels), dpi=(72, 72))
    found = plain_png.decode(path)
    assert found is not None and found.dtype == np.uint8 and found.ndim == 3
    np.testing.assert_array_equal(found.reshape(pixels.shape), pixels)
    np.testing.assert_array_equal(read_pixels(path), found)


def text() -> PngImagePlugin.PngInfo:
    info = PngImagePlugin.PngInfo()
    info.add_text("Raw profile type exif", "turned")
    return info


def turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


NOT_PLAIN = {
    "palette": (Image.fromarray(PIXELS).convert("P"), {}),
    "alpha": (Image.fromarray(PIXELS).convert("RGBA"), {}),
    "transparent": (Image.fromarray(PIXELS), {"transparency": (1, 2, 3)}),
    "turned": (Image.fromarray(PIXELS), {"exif": turned()}),
    "text": (Image.fromarray(PIXELS), {"pnginfo": text()}),
    "16 bit": (Image.fromarray(PIXELS[..., 0].astype(np.uint16)), {}),
    "1 bit": (Image.fromarray(PIXELS[..., 0] > 99), {}),
}


@pytest.mark.parametrize("kind", NOT_PLAIN)
def test_what_is_not_plain_is_pillows(kind: str, tmp_path: Path) -> None:
    picture, how = NOT_PLAIN[kind]
    path = saved(tmp_path / "a.png", picture, **how)
    assert plain_png.decode(path) is None
    assert read_pixels(path).shape[:2] == ((23, 19) if kind == "turned" else (19, 23))


def test_torn_and_padded_files_are_pillows_and_so_are_huge_claims(tmp_path: Path) -> None:
    whole = saved(tmp_path / "a.png", Image.fromarray(PIXELS)).read_bytes()
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 255
    for content in (whole[:-1], whole[:40], whole[:10], b"", whole + b"\0", bytes(changed)):
        (tmp_path / "b.png").write_bytes(content)
        assert plain_png.decode(tmp_path / "b.png") is None
    with pytest.raises(DataProblem, match="cannot be read"):
        (tmp_path / "b.png").write_bytes(bytes(changed))
        read_pixels(tmp_path / "b.png")
    (tmp_path / "c.png").write_bytes(whole[:16] + (60_000).to_bytes(4, "big") * 2 + whole[24:])
    assert plain_png.decode(tmp_path / "c.png") is None


@pytest.mark.parametrize("shape", [(1, 1), (5, 300), (64, 64)])
def test_masks_come_back_as_they_were(shape: tuple[int, int], tmp_path: Path) -> None:
    mask = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    write_png(tmp_path / "m.png", mask[:, ::-1])
    with Image.open(tmp_path / "m.png") as picture:
        assert picture.mode == "L"
        np.testing.assert_array_equal(np.asarray(picture), mask[:, ::-1])
