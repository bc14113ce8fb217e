"""What a file claims is held against a limit before it is read: bombs, impossible headers; and large photographs."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
import textwrap
import zlib
from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np
import pytest
from data_roots import write_picture, write_volume
from PIL import Image as Pillow

from fedsuper.data.images.io import read_image, read_label
from fedsuper.data.images.masks import write_mask
from fedsuper.data.problems import DataProblem

GIGABYTE = 2**30


def png_bomb(path: Path) -> None:
    """A PNG of 60,000 by 60,000 pixels in a few bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + content)


def nifti_bytes(change: Callable[[nibabel.Nifti1Header], None], order: str = "<") -> bytearray:
    header = nibabel.Nifti1Header(endianness=order)
    header.set_data_shape((4, 4, 4))
    header["magic"] = b"n+1"
    header["vox_offset"] = 352
    header["sform_code"] = 1
    header["srow_x"], header["srow_y"], header["srow_z"] = np.eye(4)[:3]
    change(header)
    return bytearray(header.binaryblock) + bytearray(4)


def huge_shape(header: nibabel.Nifti1Header) -> None:
    header["dim"] = [3, 32767, 32767, 32767, 1, 1, 1, 1]


def wide_voxels(header: nibabel.Nifti1Header) -> None:
    header["dim"] = [3, 2**9, 2**9, 2**10, 1, 1, 1, 1]
    header["datatype"], header["bitpix"] = 1792, 128  # complex numbers of 16 bytes


def far_voxels(header: nibabel.Nifti1Header) -> None:
    header["vox_offset"] = 2.0**31


def gzip_bomb(path: Path, start: bytearray, gigabytes: int = 3) -> None:
    """A small file that unpacks to gigabytes: a header, then zeros."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(bytes(start))
        block = bytes(2**24)
    once = gzip.compress(block, compresslevel=9)
    with path.open("ab") as file:
        for _ in range(gigabytes * 64):
            file.write(once)


def with_extension(start: bytearray) -> bytearray:
    """A header that announces an extension of two gigabytes."""
    start[348] = 1
    return start + struct.pack("<ii", 2**31 - 16, 6)


KINDS: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "png": ("a.png", png_bomb, "pixels"),
    "nifti": ("a.nii", lambda path: path.write_bytes(nifti_bytes(huge_shape)) and None, "values"),
    "nifti-gz": ("a.nii.gz", lambda path: gzip_bomb(path, nifti_bytes(huge_shape)), "values"),
    "nifti-wide": ("a.nii", lambda path: path.write_bytes(nifti_bytes(wide_voxels)) and None, "memory"),
    "nifti-far": ("a.nii.gz", lambda path: gzip_bomb(path, with_extension(nifti_bytes(far_voxels))), "puts its voxels"),
    "nifti-far-big-endian": (
        "a.nii", lambda path: path.write_bytes(nifti_bytes(far_voxels, ">")) and None, "puts its voxels",
    ),
    "nifti-trailer": ("a.nii.gz", lambda path: gzip_bomb(path, nifti_bytes(lambda header: None)), "far more data"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_is_refused_before_it_unpacks(tmp_path: Path, kind: str) -> None:
    """In a process that may not take a gigabyte more than it has: the refusal must be ours, not the allocator's."""
    name, write, words = KINDS[kind]
    write(tmp_path / name)
    code = f"""
        import resource, sys
        from pathlib import Path
        import nibabel, PIL.Image
        from fedsuper.data.images.io import read_image
        from fedsuper.data.problems import DataProblem
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + {GIGABYTE}, held + {GIGABYTE}))
        try:
            read_image(Path({str(tmp_path / name)!r}))
        except DataProblem as problem:
            print(problem)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert words in done.stdout and len(done.stdout.splitlines()) == 1, done.stdout + done.stderr


def test_a_dicom_file_that_claims_terabytes_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pydicom", reason="pip install 'fedsuper[dicom]'")
    from dicom_files import new_file

    new_file(tmp_path / "a.dcm", Rows=65535, Columns=65535, PixelData=b"\0\0")
    with pytest.raises(DataProblem, match="values"):
        read_image(tmp_path / "a.dcm")
    new_file(tmp_path / "b.dcm", Rows=16, Columns=16, NumberOfFrames=2**31 - 1, PixelData=b"\0\0")
    with pytest.raises(DataProblem, match="frames"):
        read_image(tmp_path / "b.dcm")


LARGE = """
    import sys
    from pathlib import Path
    import torch
    from fedsuper.bench.peak_memory import peak_megabytes
    from fedsuper.data.images.io import read_image
    from fedsuper.data.images.masks import write_mask
    from fedsuper.data.preprocess import Preprocess, prepare_image, regions_to_labels, restore_probabilities
    from fedsuper.inference.predict.preview import ContactSheet

    image = read_image(Path(sys.argv[1]))
    prepare_image(image, Preprocess(image_size=256), 3)
    probabilities = restore_probabilities(torch.rand(1, 2, 8, 8), image.size)
    labels = regions_to_labels(probabilities, {"disc": (1, 2), "cup": (2,)})
    write_mask(Path(sys.argv[2]), labels, image)
    ContactSheet(1).add(0, image, labels, "global")
    print(peak_megabytes())
"""


@pytest.mark.slow
def test_a_photograph_of_36_megapixels_fits_in_a_gigabyte(tmp_path: Path) -> None:
    """Read, prepared, its probabilities restored, mask and preview written; torch's own share included."""
    small = np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8)
    Pillow.fromarray(small).resize((6000, 6000)).save(tmp_path / "eye.jpg")
    arguments = [sys.executable, "-c", textwrap.dedent(LARGE), str(tmp_path / "eye.jpg"), str(tmp_path / "mask.png")]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=True)
    assert float(done.stdout) < 1000  # of the process's own: ru_maxrss would count what its parent held
    assert Pillow.open(tmp_path / "mask.png").size == (6000, 6000)


def test_scaling_slab_by_slab_gives_nibabels_numbers(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    for dtype in (np.uint8, np.int16, np.int32, np.float32):
        stored = random.integers(0, 200, (5, 6, 4)).astype(dtype)
        image = nibabel.Nifti1Image(stored, np.eye(4))
        image.header.set_slope_inter(0.3, -1.7)
        image.to_filename(tmp_path / "scan.nii.gz")
        expected = np.asanyarray(nibabel.load(tmp_path / "scan.nii.gz").dataobj).astype(np.float32)
        read = read_image(tmp_path / "scan.nii.gz")
        np.testing.assert_array_equal(read.frame.to_file(read.array[:, 0]), expected)


def test_ordinary_files_pass(tmp_path: Path) -> None:
    write_picture(tmp_path / "eye.png", np.zeros((20, 20), np.uint8))
    write_volume(tmp_path / "scan.nii.gz", np.zeros((8, 8, 3), np.int16))
    assert read_image(tmp_path / "eye.png").size == (20, 20) and len(read_image(tmp_path / "scan.nii.gz").array) == 3


@pytest.mark.parametrize("shape", [(5,), (4096,)])
def test_a_nifti_of_one_axis_is_no_image(tmp_path: Path, shape: tuple[int, ...]) -> None:
    nibabel.Nifti1Image(np.zeros(shape, np.int16), np.eye(4)).to_filename(tmp_path / "a.nii.gz")
    for reader in (read_image, read_label):
        with pytest.raises(DataProblem, match="1 axes"):
            reader(tmp_path / "a.nii.gz")


@pytest.mark.parametrize(("slope", "intercept"), [(np.inf, 0), (-np.inf, 0), (1, np.inf), (2, -np.inf)])
def test_an_infinite_slope_is_refused(tmp_path: Path, slope: float, intercept: float) -> None:
    def change(header: nibabel.Nifti1Header) -> None:
        header["scl_slope"], header["scl_inter"] = slope, intercept

    (tmp_path / "a.nii").write_bytes(nifti_bytes(change) + bytes(4 * 4 * 4 * 8))
    with pytest.raises(DataProblem) as problem:
        read_image(tmp_path / "a.nii")
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("names", ["RGB", "RGBA"])
def test_color_voxels_are_channels_of_an_image_and_no_label(tmp_path: Path, names: str) -> None:
    voxels = np.zeros((6, 5, 3), dtype=[(name, "u1") for name in names])
    voxels["G"] = np.arange(90).reshape(6, 5, 3)
    image = nibabel.Nifti1Image(voxels, np.diag([1.0, 1, 3, 1]))
    image.header["scl_slope"], image.header["scl_inter"] = 2.0, 0.0  # colors are not scaled
    image.to_filename(tmp_path / "a.nii.gz")
    read = read_image(tmp_path / "a.nii.gz")
    np.testing.assert_array_equal(read.frame.to_file(read.array[:, 1]), voxels["G"])
    assert read.array.shape[1] == 3
    with pytest.raises(DataProblem, match="3 channels, a label has one"):
        read_label(tmp_path / "a.nii.gz")
    write_mask(tmp_path / "mask.nii.gz", np.ones(read.stack_shape, np.uint8), read)
    assert read_label(tmp_path / "mask.nii.gz", read).min() == 1
