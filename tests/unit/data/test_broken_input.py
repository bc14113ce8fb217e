"""Broken input of many kinds: each gives its finding and its one-line error, none a traceback, none a wrong sample."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nibabel
import numpy as np
import pytest
from data_roots import disc_label, png_bytes, prostate_root, retina_root, write_picture, write_volume
from PIL import Image as Pillow

from fedsuper.data.dataset import load_samples
from fedsuper.data.doctor.examine import examine
from fedsuper.data.layout import find_sites, list_items, resolve_site
from fedsuper.data.preprocess import Preprocess
from fedsuper.data.splits import RATIOS, split_items
from fedsuper.data.task import read_task
from fedsuper.errors import FedSuperError

EYE, EYE_LABEL = "a/images/eye1.png", "a/labels/eye1.png"
CASE, CASE_LABEL = "x/images/case1.nii.gz", "x/labels/case1.nii.gz"


@dataclass(frozen=True)
class Broken:
    """How a sound root is spoilt, and what must be said of it; `trains` is whether training goes on all the same."""

    spoil: Callable[[Path], object]
    file: str
    words: str
    level: str = "error"
    trains: bool = False
    sound: Callable[[Path], Path] = retina_root


def task_file(**changes) -> Callable[[Path], object]:
    """Change keys of dataset.json; None removes one."""

    def spoil(root: Path) -> None:
        value = json.loads((root / "dataset.json").read_text()) | changes
        (root / "dataset.json").write_text(json.dumps({k: v for k, v in value.items() if v is not None}))

    return spoil


def text(file: str, content: str | bytes) -> Callable[[Path], object]:
    data = content.encode() if isinstance(content, str) else content
    return lambda root: (root / file).write_bytes(data)


def torn(file: str, keep: float = 0.5) -> Callable[[Path], object]:
    def spoil(root: Path) -> None:
        data = (root / file).read_bytes()
        (root / file).write_bytes(data[: int(len(data) * keep)])

    return spoil


def picture(file: str, pixels: np.ndarray, **options) -> Callable[[Path], object]:
    return lambda root: write_picture(root / file, pixels, **options)


def volume(file: str, voxels: np.ndarray, affine: np.ndarray | None = None) -> Callable[[Path], object]:
    return lambda root: write_volume(root / file, voxels, affine)


def header(file: str, **fields) -> Callable[[Path], object]:
    """Overwrite fields of a NIfTI header in place, without nibabel's help in keeping it sane."""

    def spoil(root: Path) -> None:
        data = gzip.decompress((root / file).read_bytes())
        raw = nibabel.Nifti1Header(data[:348], check=False)
        for key, value in fields.items():
            raw[key] = value
        (root / file).write_bytes(gzip.compress(raw.binaryblock + data[348:]))

    return spoil


def all_of(*steps: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda root: [step(root) for step in steps]


def moved(source: str, target: str) -> Callable[[Path], object]:
    return lambda root: (root / source).rename(root / target)


def copied(source: str, target: str) -> Callable[[Path], object]:
    return lambda root: shutil.copyfile(root / source, root / target)


def removed(*files: str) -> Callable[[Path], object]:
    return lambda root: [(root / file).unlink() for file in files]


def flipped_byte(file: str) -> Callable[[Path], object]:
    def spoil(root: Path) -> None:
        data = bytearray(gzip.compress(gzip.decompress((root / file).read_bytes()), compresslevel=0))
        data[-1000] ^= 0x10
        (root / file).write_bytes(data)

    return spoil


def bomb_png(width: int, height: int) -> bytes:
    data = bytearray(png_bytes(np.zeros((4, 4, 3), np.uint16)))
    data[16:24] = struct.pack(">II", width, height)
    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    return bytes(data)


def pages(root: Path) -> None:
    (root / EYE).unlink()
    one, two = (Pillow.fromarray(np.full((32, 32, 3), value, np.uint8)) for value in (3, 200))
    one.save(root / "a/images/eye1.tif", save_all=True, append_images=[two])


def noise(*shape: int, dtype: type = np.uint8) -> np.ndarray:
    return np.random.default_rng(9).integers(0, 250, shape).astype(dtype)


CASES_CSV = "name,case\neye0,p0\neye1,p1\neye2,p2\neye3,p3\n"
NAN = np.where(np.indices((24, 20, 5))[2] == 2, np.nan, noise(24, 20, 5)).astype(np.float32)
BROKEN: dict[str, Broken] = {
    # the root and its task
    "root is missing": Broken(shutil.rmtree, "", "does not exist"),
    "root is a file": Broken(lambda r: (shutil.rmtree(r), r.write_text("")), "", "is not a folder"),
    "root is empty": Broken(lambda r: (shutil.rmtree(r), r.mkdir()), "", "holds no site"),
    "root is one site's folder": Broken(
        lambda r: ((r / "a/images").rename(r / "images"), shutil.rmtree(r / "a"), shutil.rmtree(r / "b")),
        "",
        "holds no site",
    ),
    "no dataset.json": Broken(removed("dataset.json"), "dataset.json", "does not exist"),
    "torn dataset.json": Broken(torn("dataset.json"), "dataset.json", "not valid JSON"),
    "dataset.json is a list": Broken(text("dataset.json", "[1]"), "dataset.json", "an object was expected"),
    "a key twice": Broken(
        text("dataset.json", '{"task": "t", "channels": 1, "channels": 3, "regions": {"d": [1]}}'),
        "dataset.json",
        "channels is there twice",
    ),
    "no channels": Broken(task_file(channels=None), "dataset.json", "'channels' is missing"),
    "channels in words": Broken(task_file(channels="three"), "dataset.json", "'channels' must be"),
    "channels true": Broken(task_file(channels=True), "dataset.json", "'channels' must be"),
    "no regions": Broken(task_file(regions={}), "dataset.json", "'regions' must map"),
    "background as region": Broken(task_file(regions={"disc": [0, 1]}), "dataset.json", "holds 0"),
    "label value above 255": Broken(task_file(regions={"disc": [256]}), "dataset.json", "holds 256"),
    "region without values": Broken(task_file(regions={"disc": []}), "dataset.json", "must be a list"),
    "region called mean": Broken(task_file(regions={"mean": [1]}), "dataset.json", "cannot be used"),
    "region with a slash": Broken(task_file(regions={"a/b": [1]}), "dataset.json", "cannot be used"),
    # pictures
    "empty file": Broken(text(EYE, b""), EYE, "is empty (0 bytes)"),
    "torn png": Broken(torn(EYE), EYE, "cannot be read"),
    "torn label": Broken(torn(EYE_LABEL, 0.7), EYE_LABEL, "cannot be read"),
    "torn jpeg": Broken(
        all_of(removed(EYE), picture("a/images/eye1.jpg", noise(32, 32, 3)), torn("a/images/eye1.jpg", 0.8)),
        "a/images/eye1.jpg",
        "cannot be read",
    ),
    "text called png": Broken(text(EYE, "see attachment"), EYE, "is not a PNG"),
    "gif called png": Broken(lambda r: Pillow.new("L", (8, 8)).save(r / EYE, format="GIF"), EYE, "is not a PNG"),
    "picture bomb": Broken(text(EYE, bomb_png(60000, 60000)), EYE, "claims"),
    "large picture": Broken(text(EYE, bomb_png(12000, 12000)), EYE, "claims"),
    "picture without width": Broken(text(EYE, bomb_png(0, 4)), EYE, ""),
    "pages": Broken(pages, "a/images/eye1.tif", "2 pages"),
    "constant picture": Broken(
        picture(EYE, np.full((32, 32, 3), 7, np.uint8)), EYE, "is constant (every pixel is 7)", trains=True
    ),
    "broken link": Broken(lambda r: ((r / EYE).unlink(), (r / EYE).symlink_to(r / "gone.png")), EYE, "does not exist"),
    "link to itself": Broken(lambda r: ((r / EYE).unlink(), (r / EYE).symlink_to("eye1.png")), EYE, "cannot be read"),
    "gray among color": Broken(
        picture(EYE, noise(32, 32)), "a/images", "mixes images of 1 and 3 channels", "warning", trains=True
    ),
    "color in a gray task": Broken(
        task_file(channels=1, task="t"), "a/images/eye0.png", "has 3 channels, the task has 1"
    ),
    "turned by EXIF": Broken(
        picture(EYE, noise(32, 32, 3), exif=b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"),
        EYE,
        "turned by its EXIF tag",
        "warning",
        trains=True,
    ),
    "a gray site": Broken(
        lambda r: [write_picture(r / f"b/images/eye{i}.png", noise(32, 32) + np.uint8(i)) for i in range(4)],
        "b/images",
        "hold 1 channel(s), those of the other sites 3",
        trains=True,
    ),
    # volumes
    "torn nii.gz": Broken(torn(CASE, 0.6), CASE, "cannot be read", sound=prostate_root),
    "flipped byte in nii.gz": Broken(flipped_byte(CASE), CASE, "CRC", sound=prostate_root),
    "nii.gz that is not gzip": Broken(text(CASE, b"abc" * 500), CASE, "cannot be read", sound=prostate_root),
    "torn nii": Broken(
        all_of(removed(CASE), volume("x/images/case1.nii", noise(24, 20, 5)), torn("x/images/case1.nii", 0.7)),
        "x/images/case1.nii",
        "cannot be read",
        sound=prostate_root,
    ),
    "volume with NaN": Broken(volume(CASE, NAN), CASE, "480 values that are NaN", sound=prostate_root),
    "volume with infinity": Broken(
        volume(CASE, np.where(np.isnan(NAN), np.inf, NAN)), CASE, "NaN or infinite", sound=prostate_root
    ),
    "values beyond float32": Broken(
        volume(CASE, np.where(np.isnan(NAN), 1e300, NAN.astype(np.float64))), CASE, "infinite", sound=prostate_root
    ),
    "complex volume": Broken(
        volume(CASE, noise(24, 20, 5).astype(np.complex64)), CASE, "complex numbers", sound=prostate_root
    ),
    "volume without voxels": Broken(
        header(CASE, dim=[3, 24, 0, 5, 1, 1, 1, 1]), CASE, "holds no pixels", sound=prostate_root
    ),
    "negative size": Broken(header(CASE, dim=[3, 24, -20, 5, 1, 1, 1, 1]), CASE, "", sound=prostate_root),
    "terabytes promised": Broken(
        header(CASE, dim=[3, 30000, 30000, 30000, 1, 1, 1, 1]), CASE, "claims", sound=prostate_root
    ),
    "more voxels promised than there are": Broken(
        header(CASE, dim=[3, 24, 20, 9, 1, 1, 1, 1]), CASE, "cannot be read", sound=prostate_root
    ),
    "unknown data type": Broken(header(CASE, datatype=77), CASE, "cannot be read", sound=prostate_root),
    "singular affine": Broken(
        header(CASE, sform_code=1, srow_x=[0, 0, 0, 0], srow_y=[0, 1, 0, 0], srow_z=[0, 0, 1, 0]),
        CASE,
        "affine is singular",
        sound=prostate_root,
    ),
    "affine with NaN": Broken(
        header(CASE, sform_code=1, srow_x=[np.nan, 0, 0, 0]), CASE, "not finite", sound=prostate_root
    ),
    "time series": Broken(volume(CASE, noise(24, 20, 5, 2, 3)), CASE, "5 axes", sound=prostate_root),
    "several echoes": Broken(volume(CASE, noise(24, 20, 5, 2)), CASE, "has 2 channels", sound=prostate_root),
    "spacing of another scan": Broken(
        all_of(
            volume(CASE, noise(24, 20, 5), np.diag([5.0, 5, 9, 1])),
            volume(CASE_LABEL, noise(24, 20, 5) % 2, np.diag([5.0, 5, 9, 1])),
        ),
        CASE,
        "the site's median is 3 x 0.5 x 0.5 mm",
        "warning",
        trains=True,
        sound=prostate_root,
    ),
    "spacing of a kilometer": Broken(
        all_of(
            volume(CASE, noise(24, 20, 5), np.diag([1, 1, 1e6, 1])),
            volume(CASE_LABEL, noise(24, 20, 5) % 2, np.diag([1, 1, 1e6, 1])),
        ),
        CASE,
        "implausible spacing",
        "warning",
        trains=True,
        sound=prostate_root,
    ),
    # labels
    "image without label": Broken(removed(EYE_LABEL), EYE, "has no label"),
    "label without image": Broken(removed(EYE), EYE_LABEL, "is a label without an image"),
    "no labels folder": Broken(lambda r: shutil.rmtree(r / "a/labels"), "a/labels", "is missing"),
    "label of another size": Broken(picture(EYE_LABEL, disc_label((30, 32))), EYE_LABEL, "its image eye1.png has"),
    "label turned": Broken(
        all_of(picture(EYE, noise(32, 24, 3)), picture(EYE_LABEL, disc_label((24, 32)))), EYE_LABEL, "rows, columns"
    ),
    "0/255 label": Broken(
        all_of(task_file(regions={"disc": [1]}), picture(EYE_LABEL, (disc_label((32, 32)) > 0) * np.uint8(255))),
        EYE_LABEL,
        "holds the label values 255",
    ),
    "unknown label value": Broken(picture(EYE_LABEL, disc_label((32, 32)) * 3), EYE_LABEL, "label values 3, 6"),
    "negative label value": Broken(
        volume(CASE_LABEL, -(noise(24, 20, 5) % 2).astype(np.int16)), CASE_LABEL, "values -1", sound=prostate_root
    ),
    "photograph as label": Broken(picture(EYE_LABEL, noise(32, 32)), EYE_LABEL, "holds the label values"),
    "colored label": Broken(picture(EYE_LABEL, noise(32, 32, 3)), EYE_LABEL, "color picture"),
    "jpeg label": Broken(
        all_of(removed(EYE_LABEL), picture("a/labels/eye1.jpg", disc_label((32, 32)))),
        "a/labels/eye1.jpg",
        "JPEG changes label values",
    ),
    "jpeg called png as label": Broken(
        lambda r: Pillow.fromarray(disc_label((32, 32))).save(r / EYE_LABEL, format="JPEG"),
        EYE_LABEL,
        "JPEG changes label values",
    ),
    "soft label": Broken(
        volume(CASE_LABEL, (noise(24, 20, 5) / 250).astype(np.float32)), CASE_LABEL, "fractions", sound=prostate_root
    ),
    "label with NaN": Broken(volume(CASE_LABEL, NAN), CASE_LABEL, "NaN or infinite", sound=prostate_root),
    "huge label values": Broken(
        volume(CASE_LABEL, noise(24, 20, 5).astype(np.float64) * 1e12), CASE_LABEL, "32 bits", sound=prostate_root
    ),
    "label of another place": Broken(
        volume(CASE_LABEL, noise(24, 20, 5) % 2, np.diag([1.0, 1, 1, 1])),
        CASE_LABEL,
        "affines differ",
        sound=prostate_root,
    ),
    "label shifted by a slice": Broken(
        volume(
            CASE_LABEL, noise(24, 20, 5) % 2, np.array([[0.5, 0, 0, 0], [0, 0.5, 0, 0], [0, 0, 3, 3], [0, 0, 0, 1]])
        ),
        CASE_LABEL,
        "lies up to 6.0 voxels away",
        sound=prostate_root,
    ),
    "label with fewer slices": Broken(
        volume(CASE_LABEL, noise(24, 20, 4) % 2), CASE_LABEL, "its image case1.nii.gz has (5", sound=prostate_root
    ),
    "label with two channels": Broken(
        volume(CASE_LABEL, noise(24, 20, 5, 2) % 2), CASE_LABEL, "a label has one", sound=prostate_root
    ),
    "png label of a volume": Broken(
        all_of(removed(CASE_LABEL), picture("x/labels/case1.png", disc_label((24, 20)) % 2)),
        "x/labels/case1.png",
        "is a picture but its image",
        sound=prostate_root,
    ),
    "empty label": Broken(
        picture(EYE_LABEL, np.zeros((32, 32), np.uint8)), EYE_LABEL, "is empty (background", "warning", trains=True
    ),
    "inverted label": Broken(
        picture(EYE_LABEL, np.ones((32, 32), np.uint8)), EYE_LABEL, "has no background", "warning", trains=True
    ),
    "region that no label shows": Broken(
        task_file(regions={"disc": [1, 2], "vessel": [3]}), "a/labels", "region vessel nowhere", "warning", trains=True
    ),
    "no region in any label": Broken(
        task_file(regions={"disc": [7]}), "a/labels/eye0.png", "holds the label values 1, 2"
    ),
    # names, cases, splits
    "two endings": Broken(copied(EYE, "a/images/eye1.tif"), "a/images/eye1.tif", "have the same name"),
    "two label endings": Broken(copied(EYE_LABEL, "a/labels/eye1.tif"), "a/labels/eye1.tif", "have the same name"),
    "names differ in case": Broken(
        all_of(copied(EYE, "a/images/EYE1.png"), copied(EYE_LABEL, "a/labels/EYE1.png")),
        "a/images/eye1.png",
        "differs only in upper and lower case",
    ),
    "sites differ in case": Broken(moved("b", "A"), "A", "only in upper and lower case"),
    "unprintable name": Broken(
        all_of(moved(EYE, "a/images/eye\x07.png"), moved(EYE_LABEL, "a/labels/eye\x07.png")),
        "a/images/eye\\x07.png",
        "unusable name",
    ),
    "unknown ending": Broken(
        text("a/images/notes.docx", "x"), "a/images/notes.docx", "is not used", "warning", trains=True
    ),
    "images in upper case": Broken(moved("b/images", "b/Images"), "b", "is not a site", "warning", trains=True),
    "site without images": Broken(
        lambda r: [(shutil.rmtree(r / "a" / d), (r / "a" / d).mkdir()) for d in ("images", "labels")],
        "a/images",
        "holds no image",
    ),
    "odd site name": Broken(moved("b", "b (2)"), "b (2)", "cannot have", "warning", trains=True),
    "cases without column": Broken(text("a/cases.csv", "image,patient\neye0,p\n"), "a/cases.csv", "has no column"),
    "cases.csv empty": Broken(text("a/cases.csv", ""), "a/cases.csv", "has no column name, case"),
    "cases lack an image": Broken(text("a/cases.csv", CASES_CSV[:-8]), "a/cases.csv", "does not name eye3"),
    "cases name a stranger": Broken(text("a/cases.csv", CASES_CSV + "eye9,p9\n"), "a/cases.csv", "names eye9"),
    "cases leave the folder": Broken(
        text("a/cases.csv", CASES_CSV + "../../b/images/eye0,p9\n"), "a/cases.csv", "names ../../b/images/eye0"
    ),
    "image of two cases": Broken(text("a/cases.csv", CASES_CSV + "eye0,p3\n"), "a/cases.csv", "belongs to two cases"),
    "case left blank": Broken(text("a/cases.csv", CASES_CSV.replace("p2", "")), "a/cases.csv", "lacks a name or"),
    "cases in another encoding": Broken(
        text("a/cases.csv", CASES_CSV.replace("p0", "Müller").encode("latin-1")), "a/cases.csv", "is not UTF-8"
    ),
    "cases with an open quote": Broken(text("a/cases.csv", CASES_CSV + '"eye1,p'), "a/cases.csv", "not valid CSV"),
    "too few cases": Broken(
        text("a/cases.csv", "name,case\n" + "".join(f"eye{i},p{i % 2}\n" for i in range(4))), "a", "2 case(s)"
    ),
    "splits torn": Broken(text("a/splits.json", '{"train": ['), "a/splits.json", "not valid JSON"),
    "splits without test": Broken(text("a/splits.json", '{"train": ["eye0"], "val": []}'), "a/splits.json", "exactly"),
    "splits of numbers": Broken(
        text("a/splits.json", '{"train": [1], "val": [2], "test": [3]}'), "a/splits.json", "exactly the lists"
    ),
    "splits with endings": Broken(
        text("a/splits.json", '{"train": ["eye0.png"], "val": ["eye1"], "test": ["eye2"]}'), "a/splits.json", "eye0.png"
    ),
    "image in two splits": Broken(
        text("a/splits.json", '{"train": ["eye0", "eye1"], "val": ["eye1"], "test": ["eye2"]}'),
        "a/splits.json",
        "'eye1' is in 'train' and in 'val'",
    ),
    "patient in two splits": Broken(
        all_of(
            text("a/cases.csv", CASES_CSV.replace("p1", "p0")),
            text("a/splits.json", '{"train": ["eye0"], "val": ["eye1"], "test": ["eye2", "eye3"]}'),
        ),
        "a/splits.json",
        "the case 'p0' is in train and val",
    ),
    "splits leave images out": Broken(
        text("a/splits.json", '{"train": ["eye0"], "val": ["eye1"], "test": ["eye2"]}'),
        "a/splits.json",
        "leaves out eye3",
        "warning",
        trains=True,
    ),
    "split without training images": Broken(
        text("a/splits.json", '{"train": [], "val": ["eye1"], "test": ["eye2"]}'),
        "a/splits.json",
        "has no image in train",
        "warning",
    ),
    "copy within a site": Broken(copied("a/images/eye0.png", EYE), EYE, "same pixels as eye0.png", trains=True),
    "copy across sites": Broken(
        copied(EYE, "b/images/eye2.png"), "b/images/eye2.png", "same pixels as a/images/eye1.png", trains=True
    ),
}


def train_side(root: Path) -> None:
    """What every site does before its first epoch."""
    task = read_task(root)
    for site in find_sites(root):
        folder = resolve_site(root, site)
        split = split_items(folder, list_items(folder, require_labels=True), RATIOS["fedsm"], seed=0)
        for items in split.values():
            samples = load_samples(folder, items, task, Preprocess(image_size=16))
            assert samples.images.isfinite().all()
            assert samples.masks.max() <= 1


def test_there_are_enough_kinds() -> None:
    assert len(BROKEN) >= 30


@pytest.mark.parametrize("sound", [retina_root, prostate_root])
def test_the_sound_roots_are_sound(tmp_path: Path, sound: Callable[[Path], Path]) -> None:
    root = sound(tmp_path / "root")
    assert examine(root).findings == []
    train_side(root)


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_input_is_named(tmp_path: Path, kind: str) -> None:
    broken = BROKEN[kind]
    root = broken.sound(tmp_path / "root")
    broken.spoil(root)
    findings = examine(root).findings
    expected = broken.file or str(root)
    told = [f for f in findings if f.file == expected.rstrip("/") or (not broken.file and f.file in (".", str(root)))]
    assert any(broken.words in f.what and f.level == broken.level for f in told), findings
    assert all(f.what and f.fix and "\n" not in f.what + f.fix for f in findings)
    assert all(f.site in ("", *(entry.name for entry in tmp_path.glob("root/*"))) for f in findings)
    if broken.trains:
        train_side(root)
    else:
        with pytest.raises(FedSuperError) as problem:
            train_side(root)
        assert "\n" not in str(problem.value) and len(str(problem.value)) < 700


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(tmp_path: Path) -> None:
    root = retina_root(tmp_path / "root")
    (root / EYE).chmod(0)
    assert any("may not be read" in finding.what for finding in examine(root).findings)


def test_the_cure_of_a_0_255_label_is_in_words(tmp_path: Path) -> None:
    root = retina_root(tmp_path / "root")
    BROKEN["0/255 label"].spoil(root)
    (finding,) = [f for f in examine(root).findings if f.file == EYE_LABEL]
    assert finding.level == "error" and finding.fix.startswith("save 255 as 1")
