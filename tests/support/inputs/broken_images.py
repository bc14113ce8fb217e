"""Images and labels that are broken, by name: each with what must be said of it."""

from __future__ import annotations

import shutil

import numpy as np
from data_roots import disc_label, prostate_root, write_picture
from PIL import Image as Pillow
from spoiling import (
    CASE,
    CASE_LABEL,
    EYE,
    EYE_LABEL,
    NAN,
    Broken,
    all_of,
    bomb_png,
    flipped_byte,
    header,
    noise,
    pages,
    picture,
    removed,
    task_file,
    text,
    torn,
    volume,
)

BROKEN_IMAGES: dict[str, Broken] = {
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
}
