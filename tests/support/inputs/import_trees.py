"""Tiny copies of the public sets in their true folder shapes, for the importer tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from import_files import (
    AFFINE,
    SHAPE,
    SIZE,
    circle,
    drawing,
    gland,
    gray_levels,
    photograph,
    save,
    save_metaimage,
    save_nifti,
    save_nrrd,
    volume,
)
from PIL import Image
from scipy.io import savemat


@dataclass(frozen=True)
class Tree:
    """A set on disk: the names its cases get, and the image and label files of the case `name`."""

    names: tuple[str, ...]
    name: str
    image: Path
    label: Path
    kept: bool  # whether images go over as they are


def drishti(raw: Path) -> Tree:
    places = {
        "drishtiGS_002": ("Training/Images/GLAUCOMA", "Training/GT"),
        "drishtiGS_004": ("Training/Images/NORMAL", "Training/GT"),
        "drishtiGS_001": ("Test/Images", "Test/Test_GT"),
    }
    for seed, (name, (images, truth)) in enumerate(places.items()):
        image = save(raw / "Drishti-GS1_files" / images / f"{name}.png", photograph(seed))
        folder = raw / "Drishti-GS1_files" / truth / name
        for part, radius in (("cup", 8), ("OD", 16)):
            soft = np.mean([circle(radius + step) for step in range(4)], axis=0)
            label = save(folder / "SoftMap" / f"{name}_{part}segSoftmap.png", np.rint(soft * 255).astype(np.uint8))
        (folder / f"{name}_cdrValues.txt").write_text("0.5 0.5 0.5 0.5")
    return Tree(tuple(places), name, image, label, True)


def rim_one_dl(raw: Path) -> Tree:
    names = {"r1_Im001": "normal", "r2_Im002": "glaucoma", "r3_G-1-L": "glaucoma"}
    for seed, (name, kind) in enumerate(names.items()):
        for partition in ("partitioned_by_hospital/test_set", "partitioned_randomly/training_set"):
            image = save(raw / "RIM-ONE_DL_images" / partition / kind / f"{name}.png", photograph(seed))
        masks = raw / "RIM-ONE_DL_reference_segmentations" / kind
        save(masks / f"{name}-1-Disc-T.png", circle(18).astype(np.uint8) * 255)
        label = save(masks / f"{name}-1-Cup-T.png", circle(8).astype(np.uint8) * 255)
    return Tree(
        tuple(names), name, raw / "RIM-ONE_DL_images/partitioned_by_hospital/test_set" / kind / image.name, label, True
    )


def rim_one_r3(raw: Path) -> Tree:
    names = {"N-1-L": "Healthy", "N-2-R": "Healthy", "G-1-L": "Glaucoma and suspects"}
    for seed, (name, kind) in enumerate(names.items()):
        stereo = np.concatenate([photograph(seed), photograph(seed + 50)], axis=1)
        image = save(raw / kind / "Stereo Images" / f"{name}.jpg", stereo)
        left = np.pad(circle(18), ((0, 0), (0, SIZE)))
        save(raw / kind / "Average_masks" / f"{name}-Disc-Avg.png", left.astype(np.uint8) * 255)
        inner = np.pad(circle(8), ((0, 0), (0, SIZE)))
        label = save(raw / kind / "Average_masks" / f"{name}-Cup-Avg.png", inner.astype(np.uint8) * 255)
        save(raw / kind / "Expert1_masks" / f"{name}-1-Disc-exp1.png", left.astype(np.uint8) * 255)
    return Tree(tuple(names), name, image, label, False)


def refuge(raw: Path) -> Tree:
    places = {
        "g0001": ("Training400/Glaucoma", "Annotation-Training400/Disc_Cup_Masks/Glaucoma"),
        "n0001": ("Training400/Non-Glaucoma", "Annotation-Training400/Disc_Cup_Masks/Non-Glaucoma"),
        "V0001": ("REFUGE-Validation400", "REFUGE-Validation400-GT/Disc_Cup_Masks"),
        "T0001": ("REFUGE-Test400", "REFUGE-Test-GT/Disc_Cup_Masks/G"),
    }
    for seed, (name, (images, masks)) in enumerate(places.items()):
        image = save(raw / images / f"{name}.jpg", photograph(seed))
        label = save(raw / masks / f"{name}.bmp", gray_levels(18, 8))
    return Tree(tuple(places), name, image, label, True)


def riga(raw: Path) -> Tree:
    places = {
        "BinRushed1-Corrected-image1": (raw / "BinRushed/BinRushed1-Corrected", "image1", ".jpg"),
        "BinRushed2-image1": (raw / "BinRushed/BinRushed2", "image1", ".jpg"),
        "MESSIDOR-image7": (raw / "MESSIDOR", "image7", ".tif"),
        "MagrabiFemale-image3": (raw / "Magrabia/MagrabiFemale", "image3", ".tif"),
    }
    for seed, (folder, stem, suffix) in enumerate(places.values()):
        options = {"quality": 95} if suffix == ".jpg" else {}
        base = photograph(seed, 160)
        image = save(folder / f"{stem}prime{suffix}", base, **options)
        base = np.asarray(Image.open(image))
        for rater in range(1, 7):
            stem = stem.capitalize() if rater == 1 else stem
            label = save(folder / f"{stem}-{rater}{suffix}", drawing(base, (50 + rater % 3, 20 + rater % 3)), **options)
            stem = stem.lower()
    return Tree(tuple(places), "MagrabiFemale-image3", image, label, True)


def origa(raw: Path) -> Tree:
    for seed, name in enumerate(("001", "002", "003")):
        image = save(raw / "ORIGA/Images" / f"{name}.jpg", photograph(seed))
        save(raw / "ORIGA/Images_Cropped" / f"{name}.jpg", photograph(seed + 9, 30))
        label = raw / "ORIGA/Semi-automatic-annotations" / f"{name}.mat"
        label.parent.mkdir(parents=True, exist_ok=True)
        savemat(label, {"mask": circle(18).astype(np.uint8) + circle(8)})
    (raw / "ORIGA/OrigaList.csv").write_text("Eye,Filename,ExpCDR,Set,Glaucoma\nOD,001.jpg,0.7,A,0\n")
    return Tree(("001", "002", "003"), name, image, label, True)


def dofe(raw: Path) -> Tree:
    names = []
    for number, split, stem in ((1, "train", "gdrishtiGS_002"), (1, "test", "ndrishtiGS_004"), (2, "train", "G-1-L")):
        folder = raw / "Fundus" / f"Domain{number}" / split / "ROIs"
        image = save(folder / "image" / f"{stem}.png", photograph(number))
        label = save(folder / "mask" / f"{stem}.png", gray_levels(20, 9))
        names.append(f"domain{number}-{stem}")
    return Tree(tuple(names), names[-1], image, label, True)


def promise12(raw: Path) -> Tree:
    names = ("Case00", "Case14", "Case30", "Case49")
    for seed, name in enumerate(names):
        folder = raw / f"TrainingData_Part{1 + seed % 3}"
        image = save_metaimage(folder / f"{name}.mhd", volume(seed))
        label = save_metaimage(folder / f"{name}_segmentation.mhd", gland())
    return Tree(names, name, image, label, False)


def msd_prostate(raw: Path) -> Tree:
    names = ("prostate_00", "prostate_01", "prostate_02")
    for seed, name in enumerate(names):
        both = np.stack([volume(seed), volume(seed + 40)], axis=-1)
        image = save_nifti(raw / "Task05_Prostate/imagesTr" / f"{name}.nii.gz", both)
        label = save_nifti(raw / "Task05_Prostate/labelsTr" / f"{name}.nii.gz", gland((1, 2)))
    save_nifti(raw / "Task05_Prostate/imagesTs/prostate_03.nii.gz", both)
    save(raw / "Task05_Prostate/imagesTr/._prostate_00.png", photograph(0))
    return Tree(names, name, image, label, False)


def nci_isbi(raw: Path) -> Tree:
    places = {
        "Prostate3T-01-0001": "Training/Prostate3T-01-0001.nrrd",
        "Prostate3T-02-0002": "Test/Prostate3T-02-0002_truth.nrrd",
        "ProstateDx-01-0006": "Training/ProstateDx-01-0006_correctedLabels.nrrd",
    }
    turned = AFFINE @ np.diag([1, -1, 1, 1.0])  # the label file counts its rows from the other end
    turned[:3, 3] = AFFINE[:3, 3] + AFFINE[:3, 1] * (SHAPE[1] - 1)
    for seed, (name, truth) in enumerate(places.items()):
        image = save_nifti(raw / "Image" / f"{name}.nii.gz", volume(seed))
        label = save_nrrd(raw / "Mask" / truth, gland((1, 2))[:, ::-1], turned)
    return Tree(tuple(places), name, image, label, True)


def prostatex(raw: Path) -> Tree:
    names = ("ProstateX-0000", "ProstateX-0001", "ProstateX-0191")
    for seed, (name, series) in enumerate(
        zip(names, ("t2_tse_tra_4", "t2_tse_tra_10", "t2_tse_tra_Grappa3_2"), strict=True)
    ):
        image = save_nifti(raw / "Files/prostate/Images" / f"{name}_{series}.nii.gz", volume(seed))
        label = save_nifti(raw / "Files/prostate/mask_prostate" / f"{name}.nii.gz", gland())
        save_nifti(raw / "Files/prostate/mask_pz" / f"{name}_pz.nii.gz", gland())
        save_nifti(raw / "Files/lesions/Masks/T2" / f"{name}-Finding1-t2_tse_tra_ROI.nii.gz", gland())
    return Tree(names, name, image, label, True)


def i2cvb(raw: Path) -> Tree:
    names = ("Patient_1036", "Patient_383", "Patient_799")
    for seed, name in enumerate(names):
        image = save_nifti(raw / "Image" / f"{name}.nii.gz", volume(seed))
        label = save_nifti(raw / "Mask" / f"{name}.nii.gz", gland())
    return Tree(names, name, image, label, True)


def saml(raw: Path) -> Tree:
    names = []
    for seed, (hospital, stem, values) in enumerate(
        (("BIDMC", "Case00", (1,)), ("HK", "Case38", (1,)), ("RUNMC", "Case00", (1, 2)), ("RUNMC", "Case01", (1, 2)))
    ):
        image = save_nifti(raw / hospital / f"{stem}.nii.gz", volume(seed))
        label = save_nifti(raw / hospital / f"{stem}_segmentation.nii.gz", gland(values))
        names.append(f"{hospital.lower()}-{stem}")
    return Tree(tuple(names), names[-1], image, label, True)


def folder(raw: Path) -> Tree:
    names = ("eye 1", "eye 2", "eye 3")
    for seed, name in enumerate(names):
        image = save(raw / "images" / f"{name}.jpg", photograph(seed))
        label = save(raw / "masks" / f"{name}_mask.png", (circle(18).astype(np.uint8) + circle(8)).astype(np.uint8))
    return Tree(names, name, image, label, True)


def nnunet(raw: Path) -> Tree:
    names = ("prostate_00", "prostate_01", "prostate_02")
    for seed, name in enumerate(names):
        image = save_nifti(raw / "imagesTr" / f"{name}_0000.nii.gz", volume(seed))
        label = save_nifti(raw / "labelsTr" / f"{name}.nii.gz", gland((1, 2)))
    save_nifti(raw / "imagesTs/prostate_09_0000.nii.gz", volume(9))
    described = {"channel_names": {"0": "T2"}, "labels": {"background": 0, "PZ": 1, "whole gland": [1, 2]}}
    (raw / "dataset.json").write_text(json.dumps(described | {"numTraining": 3, "file_ending": ".nii.gz"}))
    return Tree(names, name, image, label, True)


TREES: dict[str, Callable[[Path], Tree]] = {
    "drishti-gs": drishti,
    "rim-one-dl": rim_one_dl,
    "rim-one-r3": rim_one_r3,
    "refuge": refuge,
    "riga": riga,
    "origa": origa,
    "dofe": dofe,
    "promise12": promise12,
    "msd-prostate": msd_prostate,
    "nci-isbi": nci_isbi,
    "prostatex": prostatex,
    "i2cvb": i2cvb,
    "saml": saml,
    "folder": folder,
    "nnunet": nnunet,
}
