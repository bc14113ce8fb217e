"""No voxel loses its place: an identity predictor gives back the label, voxel for voxel, in the image's own grid."""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
import pytest
from data_roots import disc_label, write_picture
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from fedsuper.data.images.geometry import choose_slice_axis, slice_frame
from fedsuper.data.images.io import read_image, read_label
from fedsuper.data.images.masks import write_mask
from fedsuper.data.preprocess import Preprocess, prepare_label, regions_to_labels, restore_probabilities
from fedsuper.data.problems import DataProblem

REGIONS = {"gland": (1, 2), "core": (2,)}


def rotation(x: float = 0, y: float = 0, z: float = 0) -> np.ndarray:
    """Turn by degrees about the three axes, one after the other."""
    turned = np.eye(3)
    for axis, degrees in enumerate((x, y, z)):
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        one = np.eye(3)
        i, j = [k for k in range(3) if k != axis]
        one[i, i] = one[j, j] = c
        one[i, j], one[j, i] = -s, s
        turned = one @ turned
    return turned


def affine(matrix: np.ndarray, spacing=(0.6, 0.7, 3.0), origin=(-31.5, 12.25, 88.0)) -> np.ndarray:
    result = np.eye(4)
    result[:3, :3] = matrix @ np.diag(spacing)
    result[:3, 3] = origin
    return result


def permuted(*order: int) -> np.ndarray:
    return np.eye(3)[list(order)]


AFFINES = {
    "straight": affine(np.eye(3)),
    "flipped left-right": affine(np.diag([-1, 1, 1])),
    "flipped front-back": affine(np.diag([1, -1, 1])),
    "flipped head-foot": affine(np.diag([1, 1, -1])),
    "all flipped, negative determinant": affine(-np.eye(3)),
    "DICOM order": affine(np.diag([-1, -1, 1])),
    "slices first": affine(permuted(1, 2, 0), (3.0, 0.6, 0.7)),
    "slices second": affine(permuted(0, 2, 1), (0.6, 3.0, 0.7)),
    "sagittal": affine(permuted(2, 0, 1)),
    "coronal, flipped": affine(permuted(0, 2, 1) @ np.diag([1, -1, -1])),
    "turned 20 degrees": affine(rotation(x=20)),
    "double oblique": affine(rotation(x=-14, y=9, z=31)),
    "oblique and flipped": affine(rotation(x=8, y=-12) @ np.diag([-1, 1, 1])),
    "oblique and permuted": affine(rotation(y=17, z=5) @ permuted(1, 2, 0), (3.3, 0.4, 0.4)),
    "near 45 degrees": affine(rotation(z=44)),
    "isotropic": affine(np.eye(3), (1.0, 1.0, 1.0)),
    "thin slices": affine(np.eye(3), (0.9, 0.9, 0.2)),
    "tiny": affine(rotation(z=3), (0.01, 0.01, 0.05), (0, 0, 0)),
    "far away": affine(np.eye(3), origin=(1e4, -1e4, 5e3)),
    "sheared": affine(np.array([[1, 0.1, 0], [0, 1, 0.05], [0, 0, 1.0]])),
}
SHAPE = (11, 13, 5)


def volume_pair(folder: Path, matrix: np.ndarray, ending: str, kind=nibabel.Nifti1Image, shape=SHAPE):
    random = np.random.default_rng(3)
    image = kind(random.integers(-500, 2000, shape, dtype=np.int16), matrix)
    image.header.set_slope_inter(0.5, -10)
    image.header.set_xyzt_units("mm", "sec")
    image.header["descrip"] = b"a scanner's own words"
    image.header["cal_max"] = 700
    image.set_sform(matrix, code=2)
    image.set_qform(matrix, code=1, strip_shears=True)
    label = kind(random.integers(0, 3, shape[:3], dtype=np.uint8), matrix, image.header)
    label.set_data_dtype(np.uint8)
    label.header.set_slope_inter(1, 0)
    paths = folder / f"image{ending}", folder / f"label{ending}"
    image.to_filename(paths[0])
    label.to_filename(paths[1])
    return paths


UNCHANGED = ("dim", "pixdim", "qform_code", "sform_code", "xyzt_units", "descrip", "srow_x", "srow_y", "srow_z")
UNCHANGED += ("quatern_b", "quatern_c", "quatern_d", "qoffset_x", "qoffset_y", "qoffset_z")


def assert_same_grid(mask: Path, image: Path) -> np.ndarray:
    ours, theirs = nibabel.load(mask), nibabel.load(image)
    assert type(ours) is type(theirs)
    np.testing.assert_array_equal(ours.affine, theirs.affine)
    for key in UNCHANGED:
        np.testing.assert_array_equal(ours.header[key], theirs.header[key], err_msg=key)
    assert ours.get_data_dtype() == np.uint8
    return np.asarray(ours.dataobj)


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
@pytest.mark.parametrize("name", AFFINES)
def test_identity_predictor_returns_the_label(tmp_path: Path, name: str, ending: str) -> None:
    image_path, label_path = volume_pair(tmp_path, AFFINES[name], ending)
    image = read_image(image_path)
    write_mask(tmp_path / f"mask{ending}", read_label(label_path, image), image)
    mask = assert_same_grid(tmp_path / f"mask{ending}", image_path)
    np.testing.assert_array_equal(mask, np.asarray(nibabel.load(label_path).dataobj))


@pytest.mark.parametrize("name", AFFINES)
def test_image_voxels_and_label_voxels_stay_together(tmp_path: Path, name: str) -> None:
    """Where the label is a threshold of the image in the file, it is one in the slices."""
    path = tmp_path / "image.nii"
    voxels = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    nibabel.Nifti1Image(voxels, AFFINES[name]).to_filename(path)
    nibabel.Nifti1Image((voxels > 0).astype(np.uint8), AFFINES[name]).to_filename(tmp_path / "label.nii")
    image = read_image(path)
    np.testing.assert_array_equal(read_label(tmp_path / "label.nii", image), image.array[:, 0] > 0)


@pytest.mark.parametrize("name", AFFINES)
def test_through_preprocessing_at_native_size(tmp_path: Path, name: str) -> None:
    shape = (12, 12, 12)
    image_path, label_path = volume_pair(tmp_path, AFFINES[name], ".nii.gz", shape=shape)
    image = read_image(image_path)
    masks = prepare_label(read_label(label_path, image), REGIONS, Preprocess(image_size=12))
    labels = regions_to_labels(restore_probabilities(masks, image.size), REGIONS)
    write_mask(tmp_path / "mask.nii.gz", labels, image)
    mask = assert_same_grid(tmp_path / "mask.nii.gz", image_path)
    np.testing.assert_array_equal(mask, np.asarray(nibabel.load(label_path).dataobj))


def test_nifti_2_stays_nifti_2(tmp_path: Path) -> None:
    image_path, label_path = volume_pair(tmp_path, AFFINES["double oblique"], ".nii.gz", nibabel.Nifti2Image)
    image = read_image(image_path)
    write_mask(tmp_path / "mask.nii.gz", read_label(label_path, image), image)
    assert_same_grid(tmp_path / "mask.nii.gz", image_path)


def test_channels_are_dropped_from_the_mask(tmp_path: Path) -> None:
    image_path, label_path = volume_pair(tmp_path, AFFINES["slices first"], ".nii", shape=(*SHAPE, 2))
    image = read_image(image_path)
    assert image.array.shape[1] == 2
    write_mask(tmp_path / "mask.nii", read_label(label_path, image), image)
    written = nibabel.load(tmp_path / "mask.nii")
    np.testing.assert_array_equal(np.asarray(written.dataobj), np.asarray(nibabel.load(label_path).dataobj))
    np.testing.assert_array_equal(written.affine, nibabel.load(image_path).affine)


@pytest.mark.parametrize("shape", [(9, 7), (9, 7, 1), (1, 9, 7), (9, 1, 7)])
def test_a_single_slice_is_one_slice(tmp_path: Path, shape: tuple[int, ...]) -> None:
    matrix = affine(rotation(z=10), (0.5, 0.5, 0.1))
    values = np.random.default_rng(1).integers(0, 2, shape, dtype=np.uint8)
    nibabel.Nifti1Image(values, matrix).to_filename(tmp_path / "label.nii.gz")
    nibabel.Nifti1Image(values.astype(np.float32), matrix).to_filename(tmp_path / "image.nii.gz")
    image = read_image(tmp_path / "image.nii.gz")
    assert image.array.shape[:2] == (1, 1) and sorted(image.size) == [7, 9]
    write_mask(tmp_path / "mask.nii.gz", read_label(tmp_path / "label.nii.gz", image), image)
    np.testing.assert_array_equal(assert_same_grid(tmp_path / "mask.nii.gz", tmp_path / "image.nii.gz"), values)


def test_a_label_in_another_axis_order_finds_its_voxels(tmp_path: Path) -> None:
    image_path, label_path = volume_pair(tmp_path, AFFINES["oblique and flipped"], ".nii.gz")
    stored_otherwise = nibabel.as_closest_canonical(nibabel.load(label_path))
    stored_otherwise.to_filename(tmp_path / "canonical.nii.gz")
    image = read_image(image_path)
    assert not np.allclose(stored_otherwise.affine, image.affine)
    direct, turned = (read_label(path, image) for path in (label_path, tmp_path / "canonical.nii.gz"))
    np.testing.assert_array_equal(direct, turned)


def test_slices_are_shown_as_radiologists_read_them(tmp_path: Path) -> None:
    """Patient right on the left, front on top, first slice at the feet, whatever the file's order."""
    for name in ("straight", "all flipped, negative determinant", "slices first", "coronal, flipped"):
        matrix = AFFINES[name]
        place = np.stack(np.meshgrid(*map(np.arange, SHAPE), indexing="ij"), axis=-1) @ matrix[:3, :3].T
        for axis in range(3):
            nibabel.Nifti1Image(place[..., axis].astype(np.float32), matrix).to_filename(tmp_path / "place.nii")
            stack = read_image(tmp_path / "place.nii").array[:, 0]
            cut = choose_slice_axis(matrix, SHAPE)
            rows, columns = [world for world in (2, 1, 0) if world != cut]
            along = {cut: 0, rows: 1, columns: 2}[axis]
            steps = np.diff(stack, axis=along)
            assert (steps > 0).all() if axis == cut else (steps < 0).all()


def test_the_largest_spacing_is_cut_and_ties_are_axial() -> None:
    assert choose_slice_axis(AFFINES["straight"], SHAPE) == 2
    assert choose_slice_axis(AFFINES["isotropic"], SHAPE) == 2
    assert choose_slice_axis(np.diag([1.0, 0.98, 0.97, 1]), SHAPE) == 2
    assert choose_slice_axis(np.diag([1.0, 0.8, 0.8, 1]), SHAPE) == 0
    assert choose_slice_axis(np.diag([0.5, 3.0, 0.5, 1]), SHAPE) == 1
    assert choose_slice_axis(np.diag([0.5, 3.0, 0.5, 1]), (5, 5, 1)) == 2


@settings(max_examples=60, deadline=None)
@given(
    angles=st.tuples(*[st.floats(-180, 180)] * 3),
    order=st.permutations([0, 1, 2]),
    signs=st.tuples(*[st.sampled_from([-1, 1])] * 3),
    spacing=st.tuples(*[st.floats(0.05, 9)] * 3),
    shape=st.tuples(*[st.integers(1, 6)] * 3),
)
def test_any_frame_is_a_bijection_that_keeps_places(angles, order, signs, spacing, shape) -> None:
    matrix = affine(rotation(*angles) @ permuted(*order) @ np.diag(signs), spacing)
    frame = slice_frame(matrix, shape)
    volume = np.arange(np.prod(shape)).reshape(shape)
    stack = frame.to_slices(volume)
    np.testing.assert_array_equal(frame.to_file(stack), volume)
    corner = tuple(length - 1 for length in stack.shape)
    place = frame.affine(matrix, shape) @ (*corner, 1)
    voxel = np.unravel_index(stack[corner], shape)
    np.testing.assert_allclose(place, matrix @ (*voxel, 1), atol=1e-6)
    sizes = np.linalg.norm(frame.affine(matrix, shape)[:3, :3], axis=0)
    np.testing.assert_allclose(frame.spacing(matrix), sizes)


@pytest.mark.parametrize("size", [(32, 32), (31, 40), (40, 17)])
@pytest.mark.parametrize("ending", ["png", "jpg", "tif", "bmp"])
def test_pictures_get_a_png_of_their_own_size(tmp_path: Path, size: tuple[int, int], ending: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    image = read_image(write_picture(tmp_path / f"eye.{ending}", pixels))
    label = write_picture(tmp_path / "label.png", disc_label(size))
    write_mask(tmp_path / "mask.png", read_label(label, image), image)
    written = Pillow.open(tmp_path / "mask.png")
    assert written.mode == "L"
    np.testing.assert_array_equal(np.asarray(written), disc_label(size))


def test_a_mask_of_the_wrong_shape_or_ending_is_refused(tmp_path: Path) -> None:
    image = read_image(write_picture(tmp_path / "eye.png", np.zeros((8, 9, 3), np.uint8)))
    with pytest.raises(ValueError, match="shape"):
        write_mask(tmp_path / "mask.png", np.zeros((1, 9, 8), np.uint8), image)
    with pytest.raises(ValueError, match="0..255"):
        write_mask(tmp_path / "mask.png", np.full((1, 8, 9), 256), image)
    for ending, words in ((".dcm", "refers to DICOM files"), (".tif", r"name it with \.png")):
        with pytest.raises(DataProblem, match=words):
            write_mask(tmp_path / f"mask{ending}", np.zeros((1, 8, 9), np.uint8), image)
    assert not list(tmp_path.glob("mask*")) and not list(tmp_path.glob(".partial*"))
