"""Small federations of several kinds, each trained once with FedSM's defaults; finished trainings are kept.

`retina` and `prostate` are the easy hospitals of docs/results/selection.md; `hard-prostate` the realistic ones;
`compare` is the study of every method; `short` and `long` are those of docs/results/personal.md, with 20 and 60 rounds
and many test images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedsuper.config.reading import change_study, read_study
from fedsuper.data.synthetic.prostate import write_prostate
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.evaluation.run_files.names import cell
from fedsuper.studies.compare import Comparison, compare
from fedsuper.studies.personal.by_seed import STUDY as PERSONAL
from fedsuper.studies.personal.hospitals import write_hospitals

COMPARE = Path(__file__).parents[1] / "compare.yaml"
METHOD = "fedsm"
SMALL = ("image_size=64", "optimizer.lr=0.003", "model.channels=[8,16,32,64]")


@dataclass(frozen=True)
class Kind:
    """How a federation's images are made, and what it changes of a study."""

    write: Callable[[Path, int], object]
    study: Path = COMPARE
    changes: Sequence[str] = ()
    split_by_seed: bool = False


KINDS: dict[str, Kind] = {
    "retina": Kind(lambda root, seed: write_retina(root, sites=5, images=260, size=96, seed=seed, difficulty="easy"),
                   changes=("rounds=20", *SMALL), split_by_seed=True),
    "prostate": Kind(lambda root, seed: write_prostate(root, sites=4, images=16, size=64, seed=seed,
                                                       difficulty="easy"),
                     changes=("rounds=15", *SMALL), split_by_seed=True),
    "hard-prostate": Kind(lambda root, seed: write_prostate(root, sites=5, images=60, size=64, seed=seed),
                          changes=("rounds=20", *SMALL), split_by_seed=True),
    "compare": Kind(lambda root, seed: write_retina(root, images=300, size=48, seed=seed)),
    "short": Kind(write_hospitals, PERSONAL),
    "long": Kind(write_hospitals, PERSONAL, ("rounds=60",)),
}


def trained(kind: str, seed: int, out: Path) -> tuple[Path, Path]:
    """The folder of the run and the root of its images."""
    how, folder = KINDS[kind], Path(out) / f"{kind}-{seed}"
    root = folder / "data"
    if not (root / "dataset.json").exists():
        how.write(root, seed)
    more = [f"split.seed={seed}"] if how.split_by_seed else []
    study = change_study(read_study(how.study), [*how.changes, *more])
    compare(Comparison(study, root, [METHOD], [seed], folder / "run"))
    return cell(folder / "run", METHOD, seed), root
