"""Every kind of picture a hospital brings is read with its true values."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import nibabel
import numpy as np
import pytest
from data_roots import png_bytes, tiff16_bytes, write_picture, write_volume
from PIL import Image as Pillow

from fedsuper.data.images.io import read_image, read_label
from fedsuper.data.problems import DataProblem

RANDOM = np.random.default_rng(7)
GRAY8 = RANDOM.integers(0, 256, (6, 9), dtype=np.uint8)
RGB8 = RANDOM.integers(0, 256, (6, 9, 3), dtype=np.uint8)
GRAY16 = RANDOM.integers(0, 65536, (6, 9), dtype=np.uint16)
RGB16 = RANDOM.integers(0, 65536, (6, 9, 3), dtype=np.uint16)


def pixels_of(path: Path) -> np.ndarray:
    image = read_image(path)
    assert image.array.dtype in (np.uint8, np.uint16, np.float32)
    assert image.native_shape == image.size and image.spacing is None
    return image.array[0].transpose(1, 2, 0)


@pytest.mark.parametrize("ending", ["png", "tif", "bmp"])
def test_8_bit_gray_and_color(tmp_path: Path, ending: str) -> None:
    np.testing.assert_array_equal(pixels_of(write_picture(tmp_path / f"g.{ending}", GRAY8))[..., 0], GRAY8)
    np.testing.assert_array_equal(pixels_of(write_picture(tmp_path / f"c.{ending}", RGB8)), RGB8)


@pytest.mark.parametrize("compression", [None, "tiff_lzw", "tiff_adobe_deflate", "packbits"])
def test_tiff_compressions(tmp_path: Path, compression: str | None) -> None:
    options = {"compression": compression} if compression else {}
    np.testing.assert_array_equal(pixels_of(write_picture(tmp_path / "c.tif", RGB8, **options)), RGB8)
    np.testing.assert_array_equal(pixels_of(write_picture(tmp_path / "g.tiff", GRAY16, **options))[..., 0], GRAY16)


def test_jpeg_is_close(tmp_path: Path) -> None:
    smooth = np.broadcast_to(np.arange(0, 256, 8, dtype=np.uint8)[:, None, None], (32, 32, 3)).copy()
    read = pixels_of(write_picture(tmp_path / "c.JPG", smooth, quality=95))
    assert np.abs(read.astype(int) - smooth).max() < 8


def test_16_bit_gray_keeps_all_bits(tmp_path: Path) -> None:
    np.testing.assert_array_equal(pixels_of(write_picture(tmp_path / "g.png", GRAY16))[..., 0], GRAY16)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_16_bit_png_keeps_all_bits_and_drops_alpha(tmp_path: Path, channels: int) -> None:
    pixels = RANDOM.integers(0, 65536, (6, 9, channels), dtype=np.uint16)
    path = tmp_path / "wide.png"
    path.write_bytes(png_bytes(pixels))
    np.testing.assert_array_equal(
        read_image(path).array[0].transpose(1, 2, 0), pixels[..., : channels - (channels % 2 == 0)]
    )


@pytest.mark.parametrize("deflate", [False, True])
@pytest.mark.parametrize("order", ["<", ">"])
def test_16_bit_color_tiff_keeps_all_bits(tmp_path: Path, order: str, deflate: bool) -> None:
    path = tmp_path / "wide.tif"
    path.write_bytes(tiff16_bytes(RGB16, order, deflate))
    np.testing.assert_array_equal(pixels_of(path), RGB16)


def test_float_tiff(tmp_path: Path) -> None:
    values = RANDOM.normal(size=(6, 9)).astype(np.float32)
    np.testing.assert_array_equal(pixels_of(write_picture(tmp_path / "f.tif", values))[..., 0], values)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "PA", "1", "CMYK"])
def test_other_modes(tmp_path: Path, mode: str) -> None:
    picture = Pillow.fromarray(RGB8).convert("P" if mode == "PA" else mode)
    path = tmp_path / ("p.tif" if mode in ("CMYK", "PA") else "p.png")
    picture.convert(mode).save(path)
    expected = np.asarray(Pillow.open(path).convert("L" if mode in ("LA", "1") else "RGB"))
    read = pixels_of(path).squeeze()
    if mode == "1":
        expected = expected > 0
    np.testing.assert_array_equal(read, expected)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", ["png", "jpg", "tif"])
def test_exif_orientation_is_applied(tmp_path: Path, orientation: int, ending: str) -> None:
    pixels = np.zeros((16, 24), dtype=np.uint8)
    pixels[:8, :8] = 200
    exif = Pillow.Exif()
    exif[0x0112] = orientation
    path = write_picture(tmp_path / f"turned.{ending}", pixels, exif=exif)
    upright = {
        1: pixels,
        2: pixels[:, ::-1],
        3: pixels[::-1, ::-1],
        4: pixels[::-1],
        5: pixels.T,
        6: np.rot90(pixels, -1),
        7: np.rot90(pixels.T, 2),
        8: np.rot90(pixels),
    }[orientation]
    read = pixels_of(path)[..., 0].astype(int)
    np.testing.assert_allclose(read, upright, atol=40)  # JPEG rings at the edge


def test_palette_labels_are_their_indices(tmp_path: Path) -> None:
    label = Pillow.fromarray(np.array([[0, 1], [2, 1]], dtype=np.uint8), mode="P")
    label.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0])
    label.save(tmp_path / "label.png")
    assert read_label(tmp_path / "label.png").tolist() == [[[0, 1], [2, 1]]]


def test_gray_rgb_and_bilevel_labels(tmp_path: Path) -> None:
    values = np.array([[0, 1], [2, 1]], dtype=np.uint8)
    write_picture(tmp_path / "rgb.png", np.repeat(values[..., None], 3, axis=2))
    assert read_label(tmp_path / "rgb.png").tolist() == [values.tolist()]
    Pillow.fromarray(values > 0).save(tmp_path / "bits.png")
    assert read_label(tmp_path / "bits.png").tolist() == [[[0, 1], [1, 1]]]
    write_picture(tmp_path / "deep.png", values.astype(np.uint16))
    assert read_label(tmp_path / "deep.png").tolist() == [values.tolist()]


def test_nifti_scaling_and_types(tmp_path: Path) -> None:
    stored = RANDOM.integers(-1000, 1000, (5, 6, 4), dtype=np.int16)
    image = nibabel.Nifti1Image(stored, np.diag([-1.0, -1, 2, 1]))
    image.header.set_slope_inter(0.25, 3)
    image.to_filename(tmp_path / "scaled.nii.gz")
    read = read_image(tmp_path / "scaled.nii.gz")
    expected = nibabel.load(tmp_path / "scaled.nii.gz").get_fdata()
    np.testing.assert_allclose(read.frame.to_file(read.array[:, 0]), expected, rtol=1e-6)
    assert read.spacing == (2.0, 1.0, 1.0)


def test_nifti_color_voxels_and_vectors_are_channels(tmp_path: Path) -> None:
    colored = np.zeros((5, 6, 2), dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")])
    colored["G"] = 9
    nibabel.Nifti1Image(colored, np.eye(4)).to_filename(tmp_path / "rgb.nii")
    assert read_image(tmp_path / "rgb.nii").array.mean(axis=(0, 2, 3)).tolist() == [0, 9, 0]
    vectors = RANDOM.normal(size=(5, 6, 2, 1, 4)).astype(np.float32)
    nibabel.Nifti1Image(vectors, np.eye(4)).to_filename(tmp_path / "vector.nii")
    assert read_image(tmp_path / "vector.nii").array.shape[1] == 4


def test_float_labels_with_whole_numbers_are_taken(tmp_path: Path) -> None:
    values = RANDOM.integers(0, 3, (5, 6, 4)).astype(np.float64)
    path = write_volume(tmp_path / "label.nii", values)
    assert sorted(np.unique(read_label(path)).tolist()) == [0, 1, 2]


def test_a_flipped_bit_in_a_gzipped_volume_is_noticed(tmp_path: Path) -> None:
    """nibabel alone stops reading before gzip's checksum and would hand over wrong voxels."""
    voxels = RANDOM.integers(0, 4, (32, 32, 8), dtype=np.uint8)
    path = write_volume(tmp_path / "volume.nii.gz", voxels)
    plain = gzip.decompress(path.read_bytes())
    spoiled = bytearray(gzip.compress(plain, compresslevel=0))
    spoiled[-2000] ^= 1
    path.write_bytes(spoiled)
    with pytest.raises(DataProblem, match="CRC"):
        read_image(path)



def test_a_gzip_bomb_behind_a_small_header_is_refused(tmp_path: Path) -> None:
    path = write_volume(tmp_path / "volume.nii.gz", np.ones((4, 4, 4), np.uint8))
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + bytes(3 * 2**20)))
    with pytest.raises(DataProblem, match="far more data than its header says"):
        read_image(path)


@pytest.mark.parametrize(
    ("module", "name"), [("imagecodecs", "wide.png"), ("tifffile", "wide.tif"), ("SimpleITK", "scan.nrrd")]
)
def test_without_the_extra_a_rare_format_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    content = png_bytes(RGB16) if name.endswith("png") else tiff16_bytes(RGB16, "<", False)
    (tmp_path / name).write_bytes(content)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DataProblem, match=rf"{module} is not installed; pip install 'fedsuper\[formats\]'"):
        read_image(tmp_path / name)
