"""Data roots that are broken, by name: their task, names, cases and splits, each with what must be said of it."""

from __future__ import annotations

import shutil

from spoiling import (
    CASES_CSV,
    EYE,
    EYE_LABEL,
    Broken,
    all_of,
    copied,
    moved,
    removed,
    task_file,
    text,
    torn,
)

BROKEN_ROOTS: dict[str, Broken] = {
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
