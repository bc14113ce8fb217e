"""The synthetic prostate federation: anatomy that makes sense, sites that differ as told, bytes that repeat."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from scipy import ndimage

from fedsuper.data.images.io import read_image, read_label
from fedsuper.data.layout import find_sites, list_items
from fedsuper.data.synthetic.prostate import render, write_prostate
from fedsuper.data.synthetic.prostate_anatomy import Grid, ellipse, noise_field
from fedsuper.data.synthetic.prostate_organs import draw_pelvis
from fedsuper.data.synthetic.prostate_patient import draw_patient
from fedsuper.data.synthetic.prostate_scan import acquire, annotate, sensitivity
from fedsuper.data.synthetic.prostate_sites import HOSPITALS, OUTSIDE, Habit, Scanner, hospital
from fedsuper.errors import FedSuperError

PLAIN = Scanner(180, 3.5, 1000, noise=0.0, shading=0.0, bias=0.0)


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("synth") / "prostate"
    write_prostate(folder, sites=6, images=5, size=48, outside=True, difficulty="easy")
    return folder


@pytest.fixture(scope="module")
def slices(root) -> dict[str, list[tuple[np.ndarray, np.ndarray, tuple[float, float, float]]]]:
    """Per site, each volume's slices, label and spacing as training sees them."""
    found = {}
    for site in find_sites(root):
        pairs = []
        for item in list_items(root / site, require_labels=True):
            image = read_image(item.image)
            pairs.append((image.array[:, 0], read_label(item.label, image), image.spacing))
        found[site] = pairs
    return found


def all_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def patient_and_pelvis(seed: int = 0, balloon: bool = False):
    rng = np.random.default_rng(seed)
    grid = Grid.of(96, 1.8, 12, 3.4)
    patient = draw_patient(rng, balloon)
    return (grid, patient, *draw_pelvis(grid, patient, rng))


@pytest.mark.slow
class TestFolder:
    def test_layout_and_task(self, root):
        expected = {"task": "prostate", "channels": 1, "regions": {"prostate": [1]}}
        assert json.loads((root / "dataset.json").read_text()) == expected
        assert find_sites(root) == [f"site-{number}" for number in range(1, 7)]

    def test_sites_differ_in_size_around_the_average(self, slices):
        counts = [len(pairs) for pairs in slices.values()]
        assert sum(counts) == 30 and len(set(counts)) > 1 and min(counts) >= 4

    def test_the_outside_hospital_has_a_root_of_its_own(self, root):
        beside = root.with_name("prostate-outside")
        assert find_sites(beside) == ["outside"] and "outside" not in find_sites(root)
        assert (beside / "dataset.json").read_bytes() == (root / "dataset.json").read_bytes()

    def test_same_seed_same_bytes_other_seed_other_bytes(self, tmp_path):
        for name, seed in (("one", 3), ("two", 3), ("three", 4)):
            write_prostate(tmp_path / name, sites=2, images=4, size=32, seed=seed, difficulty="easy")
        assert all_bytes(tmp_path / "one") == all_bytes(tmp_path / "two")
        assert (
            all_bytes(tmp_path / "one")["site-1/images/001.nii.gz"]
            != (all_bytes(tmp_path / "three")["site-1/images/001.nii.gz"])
        )

    def test_a_site_does_not_depend_on_how_many_others_there_are(self, tmp_path):
        write_prostate(tmp_path / "few", sites=2, images=4, size=32, difficulty="easy")
        write_prostate(tmp_path / "more", sites=3, images=4, size=32, difficulty="easy")
        first = "site-2/images/002.nii.gz"
        assert (tmp_path / "few" / first).read_bytes() == (tmp_path / "more" / first).read_bytes()

    def test_progress_counts_volumes(self, tmp_path):
        seen = []

        def told(done: int, total: int) -> None:
            seen.append((done, total))

        write_prostate(tmp_path / "root", sites=1, images=4, size=32, outside=True, progress=told, difficulty="easy")
        assert seen == [(done, 8) for done in range(1, 9)]

    def test_an_interruption_leaves_nothing(self, tmp_path):
        def stop(done: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            write_prostate(tmp_path / "new/root", sites=1, images=4, size=32, progress=stop, difficulty="easy")
        assert not any(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [({"sites": 0}, "--sites"), ({"images": 3}, "--images"), ({"size": 16}, "--size"), ({"seed": -1}, "--seed")],
    )
    def test_impossible_requests_are_one_line(self, wrong, message, tmp_path):
        with pytest.raises(FedSuperError, match=message):
            write_prostate(tmp_path / "root", **wrong, difficulty="easy")

    def test_a_full_folder_is_not_touched(self, tmp_path):
        (tmp_path / "root").mkdir()
        (tmp_path / "root/mine.txt").write_text("keep")
        with pytest.raises(FedSuperError, match="not an empty folder"):
            write_prostate(tmp_path / "root", sites=1, images=4, size=32, difficulty="easy")


class TestVolumes:
    def test_slices_with_and_without_gland(self, slices):
        for pairs in slices.values():
            for _, label, _ in pairs:
                there = label.any(axis=(1, 2))
                assert 10 <= len(there) <= 14 and 5 <= there.sum() < len(there)
                assert not (there[0] and there[-1])

    def test_one_gland_near_the_middle(self, slices):
        for pairs in slices.values():
            for _, label, (_, height, _) in pairs:
                pieces, _ = ndimage.label(label)
                assert np.bincount(pieces.ravel())[1:].max() > 0.97 * label.sum()
                center = np.array(ndimage.center_of_mass(label))[1:]
                assert np.abs((center - 23.5) * height).max() < 20

    def test_glands_are_of_human_size(self, slices):
        for pairs in slices.values():
            for _, label, spacing in pairs:
                assert 12 < label.sum() * np.prod(spacing) / 1000 < 90  # millilitres

    @pytest.mark.parametrize("index", range(6))
    def test_files_are_oriented_as_the_scanner_does(self, index, root):
        scanner = HOSPITALS[index].scanner
        folder = root / f"site-{index + 1}"
        image, label = (nib.load(folder / kind / "001.nii.gz") for kind in ("images", "labels"))
        assert "".join(nib.aff2axcodes(image.affine)) == scanner.axes
        assert np.array_equal(image.affine, label.affine) and image.shape == label.shape
        assert image.get_data_dtype() == np.int16 and set(np.unique(label.dataobj)) == {0, 1}

    @pytest.mark.parametrize("size", [32, 48, 96])
    def test_slices_are_axial_at_every_size(self, size, tmp_path):
        """Rows and columns must not be taken for slices when pixels are as wide as slices are thick."""
        write_prostate(tmp_path / "root", sites=1, images=4, size=size, difficulty="easy")
        image = read_image(tmp_path / "root/site-1/images/001.nii.gz")
        assert image.array.shape[1:] == (1, size, size) and 10 <= len(image.array) <= 14

    def test_every_orientation_shows_the_same_picture(self):
        """Axes and tilt change the file, not what a reader of the file sees."""
        pictures = []
        for axes, tilt in (("LPS", 0.0), ("SLP", 9.0), ("IRA", -5.0)):
            site = replace(HOSPITALS[0], scanner=replace(HOSPITALS[0].scanner, axes=axes, tilt=tilt))
            image, _, affine = render(site, [7], 48)
            back = nib.as_closest_canonical(nib.Nifti1Image(image, affine))
            pictures.append(np.asarray(back.dataobj))
        assert np.array_equal(pictures[0], pictures[1]) and np.array_equal(pictures[0], pictures[2])


class TestSites:
    def test_similar_in_shape_different_in_intensity(self, slices):
        volumes = [np.median([label.sum() * np.prod(mm) for _, label, mm in pairs]) for pairs in slices.values()]
        brightness = [np.median([image[label > 0].mean() for image, label, _ in pairs]) for pairs in slices.values()]
        assert max(volumes) / min(volumes) < 2
        assert max(brightness) / min(brightness) > 5

    def test_no_two_scanners_are_alike(self):
        scanners = [hospital(index).scanner for index in range(14)] + [OUTSIDE.scanner]
        assert len(set(scanners)) == len(scanners)


class TestAnatomy:
    def test_zones_and_neighbors_have_their_t2_brightness(self):
        grid, patient, signal, gland = patient_and_pelvis(seed=5)
        middle = np.abs(grid.z - patient.shift[2]) < 4
        inside = middle & (gland > 1.5)
        behind = inside & (grid.y - patient.shift[1] > 0.6 * patient.half_depth)
        inner = inside & (gland > 0.55 * patient.half_depth)
        muscle = np.abs(np.hypot(np.abs(grid.x - patient.shift[0]) - 43, (grid.y - patient.shift[1] - 14) / 4)) < 4
        assert signal[behind].mean() > 1.3 * signal[inner].mean()
        assert np.median(signal[np.broadcast_to(muscle & middle, signal.shape)]) < 0.25

    def test_men_are_the_same_everywhere_but_for_the_balloon(self):
        """A hospital's scanner must not choose its patients."""
        plain, pressed = (draw_patient(np.random.default_rng(1), balloon) for balloon in (False, True))
        assert plain.half_width == pressed.half_width and plain.half_depth > pressed.half_depth

    def test_ellipse_measures_from_its_border(self):
        x = np.array([0.0, 10.0, 20.0], np.float32)
        assert np.allclose(ellipse(x, np.zeros(3, np.float32), 10, 10), [10, 0, -10])

    def test_noise_has_mean_zero_and_spread_one(self):
        field = noise_field(np.random.default_rng(0), Grid.of(64, 2.0, 11, 3.0), 8.0)
        assert abs(field.mean()) < 1e-3 and abs(field.std() - 1) < 1e-3


class TestScan:
    def test_noise_is_rician(self):
        """Where there is no signal the magnitude of complex noise has mean sigma * sqrt(pi / 2)."""
        grid, patient, signal, _ = patient_and_pelvis()
        scan = acquire(np.zeros_like(signal), replace(PLAIN, noise=0.05), patient, grid, np.random.default_rng(0))
        assert scan.mean() == pytest.approx(50 * np.sqrt(np.pi / 2), rel=0.01)

    def test_without_faults_the_scan_is_the_signal(self):
        grid, patient, signal, _ = patient_and_pelvis()
        scan = acquire(signal, PLAIN, patient, grid, np.random.default_rng(0))
        assert np.abs(scan - 1000 * signal).max() <= 0.51

    def test_an_endorectal_coil_is_brightest_beside_the_rectum(self):
        grid, patient, _, _ = patient_and_pelvis(balloon=True)
        scanner = replace(PLAIN, endorectal=1.0, coil_gain=2.0)
        seen = sensitivity(scanner, patient, grid, np.random.default_rng(0))
        row = int(np.argmin(np.abs(grid.y.ravel() - patient.shift[1] - patient.half_depth)))
        column = seen[6, :, 48]
        assert column[row] > 1.8 * column[row - 20] > 0

    def test_shading_dims_the_middle(self):
        grid, patient, _, _ = patient_and_pelvis()
        seen = sensitivity(replace(PLAIN, shading=0.4), patient, grid, np.random.default_rng(0))
        assert seen[6, 48, 48] < 0.7 and seen[6, 2, 48] > 0.85

    def test_habits_change_the_label_as_told(self):
        grid, patient, _, gland = patient_and_pelvis()
        area = {
            name: annotate(gland, habit, patient, grid, np.random.default_rng(0)).sum(axis=(1, 2))
            for name, habit in (
                ("plain", Habit(0, 0, 0)),
                ("wide", Habit(1.5, 0, 0)),
                ("short", Habit(0, -4, 0)),
            )
        }
        middle = len(area["plain"]) // 2
        assert area["wide"][middle] > 1.05 * area["plain"][middle]
        assert (area["short"] > 0).sum() < (area["plain"] > 0).sum()
        assert area["short"][middle] == area["plain"][middle]
