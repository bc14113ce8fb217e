"""RIM-ONE r3 (stereo pairs) and RIM-ONE DL (crops around the disc): disc and cup as separate two-valued masks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fedsuper.data.images.raster import read_pixels
from fedsuper.data.importers.base import RETINA, Importer, Pair, Survey
from fedsuper.data.importers.readers.pictures import (
    PICTURES,
    Label,
    disc_and_cup,
    foreground,
    photograph_pair,
    png,
    read_gray,
    require_one_size,
)
from fedsuper.data.importers.readers.raw_files import by_stem, files_under, in_folder, with_suffix


def read_label(disc: Path, cup: Path) -> Label:
    """Disc and cup from one mask file each."""
    return disc_and_cup(foreground(read_gray(disc)), foreground(read_gray(cup)))


def read_crop(image: Path, disc: Path, cup: Path) -> Pair:
    """A crop as it is, and its label."""
    return photograph_pair(image, partial(read_label, disc, cup))


def read_left_view(image: Path, disc: Path, cup: Path) -> Pair:
    """The left half of a stereo photograph, the half that was annotated; masks may be of either width."""
    stereo = read_pixels(image)
    left = stereo.shape[1] // 2
    label = read_label(disc, cup)[:, :left]
    require_one_size(stereo[:, :left], label)
    return Pair(png(stereo[:, :left].copy()), png(label.copy()))


def survey_r3(raw: Path, part: str | None) -> Survey:
    """Stereo images and the two experts' average masks; the set's own average is taken, not one expert."""
    found = Survey()
    files = with_suffix(files_under(raw), *PICTURES)
    masks = by_stem(in_folder(files, "Average_masks"))
    for name, image in sorted(by_stem(in_folder(files, "Stereo Images")).items()):
        stems = f"{name}-Disc-Avg", f"{name}-Cup-Avg"
        drawn = {f"no mask Average_masks/{stem}.png": masks.get(stem) for stem in stems}
        found.add(name, partial(read_left_view, image), drawn)
    return found


def survey_dl(raw: Path, part: str | None) -> Survey:
    """Crops `rK_*.png` and masks `<name>-1-{Disc,Cup}-T.png`; the two partitions hold the same crops, taken once."""
    found = Survey()
    pictures = by_stem(with_suffix(files_under(raw), ".png"))
    masks = {name: path for name, path in pictures.items() if name.lower().endswith(("-disc-t", "-cup-t"))}
    for name, image in sorted(pictures.items()):
        if name in masks or not name.lower().startswith(("r1_", "r2_", "r3_")):
            continue
        drawn = {
            f"no mask {stem}.png (is RIM-ONE_DL_reference_segmentations there?)": masks.get(stem)
            for stem in (f"{name}-1-Disc-T", f"{name}-1-Cup-T")
        }
        found.add(name, partial(read_crop, image), drawn)
    return found


RIM_ONE_R3 = Importer(
    "rim-one-r3",
    RETINA,
    "'Healthy' and 'Glaucoma and suspects', each with 'Stereo Images/*.jpg' and Average_masks/*-{Disc,Cup}-Avg.png",
    survey_r3,
    about="stereo fundus photographs, two experts",
)
RIM_ONE_DL = Importer(
    "rim-one-dl",
    RETINA,
    "RIM-ONE_DL_images/partitioned_*/**/rK_*.png and"
    " RIM-ONE_DL_reference_segmentations/{normal,glaucoma}/*-1-{Disc,Cup}-T.png",
    survey_dl,
    about="fundus crops around the disc",
)
