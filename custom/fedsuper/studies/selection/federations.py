"""Small federations of several kinds, each trained once with FedSM's defaults; finished trainings are kept.

`retina` and `prostate` are the easy hospitals of docs/results/selection.md; `hard-prostate` the realistic ones;
`compare` is the study of every method, `demo` the demonstration's with every selector and gate; `short` and `long` are
those of docs/results/personal.md, with 20 and 60 rounds and many test images. Where a kind's own test images are few,
further ones of the same hospitals are drawn to be scored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedsuper.config.reading import change_study, read_study
from fedsuper.data.draft_folder import draft_beside
from fedsuper.data.synthetic.eye.eye_sites import eye_hospital
from fedsuper.data.synthetic.prostate import write_prostate
from fedsuper.data.synthetic.retina import render, write_retina
from fedsuper.evaluation.run_files.names import cell
from fedsuper.studies.compare import Comparison, compare
from fedsuper.studies.demo import IMAGES
from fedsuper.studies.demo import PIXELS as DEMO_PIXELS
from fedsuper.studies.demo import STUDY as DEMO
from fedsuper.studies.personal.by_seed import STUDY as PERSONAL
from fedsuper.studies.personal.hospitals import PIXELS, SITES, write_hospitals, write_images

COMPARE = Path(__file__).parents[1] / "compare.yaml"
METHOD = "fedsm"
FURTHER = 1  # in the key of images that are drawn beside a federation's own
SMALL = ("image_size=64", "optimizer.lr=0.003", "model.channels=[8,16,32,64]")


@dataclass(frozen=True)
class Kind:
    """How a federation's images are made, and what it changes of a study.

    `eyes` are the pixels of the realistic retina hospitals' images, 0 where the hospitals are others; `further` is how
    many test images of each are drawn beside the federation's own and scored in their place.
    """

    write: Callable[[Path, int], object]
    study: Path = COMPARE
    changes: Sequence[str] = ()
    split_by_seed: bool = False
    eyes: int = 0
    further: int = 0


@dataclass(frozen=True)
class Federation:
    """A finished training: its run, the root of its images, and that of further ones to score."""

    run: Path
    root: Path
    further: Path | None


KINDS: dict[str, Kind] = {
    "retina": Kind(lambda root, seed: write_retina(root, sites=5, images=260, size=96, seed=seed, difficulty="easy"),
                   changes=("rounds=20", *SMALL), split_by_seed=True),
    "prostate": Kind(lambda root, seed: write_prostate(root, sites=4, images=16, size=64, seed=seed,
                                                       difficulty="easy"),
                     changes=("rounds=15", *SMALL), split_by_seed=True),
    "hard-prostate": Kind(lambda root, seed: write_prostate(root, sites=5, images=60, size=64, seed=seed),
                          changes=("rounds=20", *SMALL), split_by_seed=True),
    "compare": Kind(lambda root, seed: write_retina(root, images=300, size=48, seed=seed), eyes=48, further=200),
    "demo": Kind(lambda root, seed: write_retina(root, images=IMAGES, size=DEMO_PIXELS, seed=seed), DEMO,
                 ("selector.kind=auto", "selector.gate=auto"), eyes=DEMO_PIXELS, further=200),
    "short": Kind(write_hospitals, PERSONAL, eyes=PIXELS),
    "long": Kind(write_hospitals, PERSONAL, ("rounds=60",), eyes=PIXELS),
}


def trained(kind: str, seed: int, out: Path) -> Federation:
    """The federation of this kind and seed; what is there is not made again."""
    how, folder = KINDS[kind], Path(out) / f"{kind}-{seed}"
    root, further = folder / "data", folder / "further"
    if not (root / "dataset.json").exists():
        how.write(root, seed)
    more = [f"split.seed={seed}"] if how.split_by_seed else []
    study = change_study(read_study(how.study), [*how.changes, *more])
    compare(Comparison(study, root, [METHOD], [seed], folder / "run"))
    if how.further and not further.exists():
        _draw_further(further, seed, how)
    return Federation(cell(folder / "run", METHOD, seed), root, further if how.further else None)


def _draw_further(root: Path, seed: int, how: Kind) -> None:
    """More photographs of the same hospitals, none of which is among the federation's own; whole or not at all."""
    with draft_beside(root) as draft:
        for index in range(SITES):
            images = render(eye_hospital(index), [seed, index, FURTHER], how.further, how.eyes)
            write_images(draft / f"site-{index + 1}", images)
        draft.rename(root)
