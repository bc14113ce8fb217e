"""What importers of volumes are made of: MetaImage, NRRD, labels placed on their image's grid, merged zones."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from import_files import AFFINE, SHAPE, gland, save_metaimage, save_nifti, save_nrrd, volume

from fedsuper.data.importers.base import UnusableCaseError
from fedsuper.data.importers.readers.volumes import Volume, merged, onto_grid, read_itk, read_nifti
from fedsuper.errors import FedSuperError


def turned(axes: tuple[int, ...], flips: tuple[int, ...]) -> tuple[np.ndarray, tuple[int, ...], tuple[int, ...]]:
    """AFFINE for the same voxels stored with permuted and reversed axes."""
    affine = AFFINE.copy()
    for axis in flips:
        affine[:3, 3] = affine[:3, 3] + affine[:3, axis] * (SHAPE[axis] - 1)
        affine[:3, axis] *= -1
    affine[:3, :3] = affine[:3, axes]
    return affine, axes, flips


class TestMetaImage:
    @pytest.mark.parametrize("flips", [(), (0,), (1,), (2,), (0, 1, 2)])
    def test_voxels_and_place_as_nifti_has_them(self, flips, tmp_path):
        affine, *_ = turned((0, 1, 2), flips)
        save_metaimage(tmp_path / "Case00.mhd", volume(3), affine)
        read = read_itk(tmp_path / "Case00.mhd")
        assert np.array_equal(read.voxels, volume(3)) and np.allclose(read.affine, affine, atol=1e-6)

    def test_oblique_directions_are_columns(self, tmp_path):
        """The header's first three numbers are where the first voxel axis points, in LPS."""
        angle = np.radians(20)
        affine = np.eye(4)
        affine[:3, :3] = [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 3.0]]
        save_metaimage(tmp_path / "Case00.mhd", volume(3), affine)
        assert np.allclose(read_itk(tmp_path / "Case00.mhd").affine, affine, atol=1e-6)

    def test_big_endian_compressed_and_in_one_file(self, tmp_path):
        save_metaimage(tmp_path / "a.mhd", volume(1))
        text = (tmp_path / "a.mhd").read_text().replace("MSB = False", "MSB = True")
        text = text.replace("CompressedData = False", "CompressedData = True").replace("a.raw", "LOCAL")
        data = zlib.compress(volume(1).astype(">i2").tobytes(order="F"))
        text = text.replace("CompressedData = True", f"CompressedData = True\nCompressedDataSize = {len(data)}")
        (tmp_path / "b.mha").write_bytes(text.encode() + data)
        assert np.array_equal(read_itk(tmp_path / "b.mha").voxels, volume(1))

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("ElementType = MET_SHORT", "ElementType = MET_STRANGE", "cannot be read .*PixelType"),
            ("DimSize = 20 24 6", "DimSize = 20 24", "cannot be read"),
            ("DimSize = 20 24 6", "DimSize = 20 24 7", "cannot be read"),
            ("CompressedData = False", "CompressedData = True", "how long its voxels are"),
            ("CompressedData = False", "CompressedData = True\nCompressedDataSize = 9", "cannot be read"),
            ("a.raw", "lost.raw", "lost.raw is missing"),
            ("a.raw", "../../secret.raw", "not one file beside it"),
        ],
    )
    def test_broken_headers_are_one_line(self, old, new, message, tmp_path):
        save_metaimage(tmp_path / "a.mhd", volume(1))
        text = (tmp_path / "a.mhd").read_text()
        assert old in text
        (tmp_path / "a.mhd").write_text(text.replace(old, new))
        with pytest.raises(FedSuperError, match=message):
            read_itk(tmp_path / "a.mhd")


class TestNrrd:
    @pytest.mark.parametrize("encoding", ["raw", "gzip"])
    def test_voxels_and_place(self, encoding, tmp_path):
        read = read_itk(save_nrrd(tmp_path / "a.nrrd", gland((1, 2)), AFFINE, encoding))
        assert np.array_equal(read.voxels, gland((1, 2))) and np.allclose(read.affine, AFFINE, atol=1e-6)

    def test_without_a_space_there_is_no_place(self, tmp_path):
        assert read_itk(save_nrrd(tmp_path / "a.nrrd", gland(), None)).affine is None

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (b"NRRD0004", b"PNG"),
            (b"encoding: raw", b"encoding: strange"),
            (b"unsigned char", b"block"),
            (b"20 24 6", b"20 24 9"),
        ],
    )
    def test_what_is_not_read_is_one_line(self, old, new, tmp_path):
        path = save_nrrd(tmp_path / "a.nrrd", gland(), AFFINE, "raw")
        path.write_bytes(path.read_bytes().replace(old, new))
        with pytest.raises(FedSuperError, match="a.nrrd: cannot be read"):
            read_itk(path)


class TestGrid:
    image = Volume(volume(0), AFFINE)

    @pytest.mark.parametrize("axes", [(0, 1, 2), (1, 0, 2), (2, 0, 1), (2, 1, 0)])
    @pytest.mark.parametrize("flips", [(), (0,), (1, 2), (0, 1, 2)])
    def test_a_turned_label_lands_voxel_for_voxel(self, axes, flips):
        affine, *_ = turned(axes, flips)
        label = Volume(np.flip(gland(), flips).transpose(axes), affine)
        placed = onto_grid(label, self.image)
        assert np.array_equal(placed.voxels, gland()) and np.array_equal(placed.affine, AFFINE)

    def test_a_label_of_some_slices_only_is_placed(self):
        affine = AFFINE.copy()
        affine[:3, 3] += AFFINE[:3, 2]
        assert np.array_equal(onto_grid(Volume(gland()[..., 1:5], affine), self.image).voxels, gland())

    @pytest.mark.parametrize("affine", [None, np.eye(4), np.diag([-1, -1, 1, 1.0])])
    def test_a_lost_header_means_voxel_for_voxel(self, affine):
        placed = onto_grid(Volume(gland(), affine), self.image)
        assert np.array_equal(placed.voxels, gland()) and np.array_equal(placed.affine, AFFINE)

    def test_a_label_elsewhere_is_refused(self):
        far = AFFINE.copy()
        far[0, 3] += 300
        with pytest.raises(UnusableCaseError, match="same place"):
            onto_grid(Volume(gland(), far), self.image)

    def test_another_shape_in_the_same_place_is_refused(self):
        with pytest.raises(UnusableCaseError, match="20x24x6 voxels, its label 20x24x5"):
            onto_grid(Volume(gland()[..., :5], AFFINE), self.image)

    def test_rounded_headers_take_the_images(self, tmp_path):
        path = save_nifti(tmp_path / "label.nii.gz", gland(), AFFINE + 1e-4)
        placed = onto_grid(read_nifti(path), self.image)
        assert placed.original is None and np.array_equal(placed.affine, AFFINE)


class TestMerged:
    def test_two_zones_become_the_gland(self):
        assert np.array_equal(merged(Volume(gland((1, 2)), AFFINE), (0, 1, 2), "x").voxels, gland())

    def test_a_plain_label_keeps_its_file(self, tmp_path):
        path = save_nifti(tmp_path / "label.nii.gz", gland())
        assert merged(read_nifti(path), (0, 1), "x").original == path

    @pytest.mark.parametrize("value", [7, 255])
    def test_other_values_are_another_label(self, value):
        with pytest.raises(UnusableCaseError, match=f"should hold 0, 1; x holds 0, {value}"):
            merged(Volume(gland((value,)), AFFINE), (0, 1), "x")

    def test_an_empty_label_is_refused(self):
        with pytest.raises(UnusableCaseError, match="empty"):
            merged(Volume(np.zeros(SHAPE, np.uint8), AFFINE), (0, 1), "x")
