"""An image of the user's own under gradient inversion, for the report (IOP-FL, Fig. 10)."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from fedsuper.core.supermodel import SuperModel
from fedsuper.data.dataset import load_samples
from fedsuper.data.layout import find_sites
from fedsuper.data.preprocess import Preprocess
from fedsuper.evaluation.cases import CaseStore
from fedsuper.evaluation.evaluate import training_splits
from fedsuper.evaluation.run_files.names import INVERSION, INVERSION_INDEX
from fedsuper.files import atomic_write, atomic_write_json
from fedsuper.inference.predictor import Predictor
from fedsuper.studies.privacy.inversion import SIZE, attack, pixels


def write_inversion(run: Path, store: CaseStore, super_model: SuperModel) -> None:
    """Attack the first test image of the first site; pictures and `index.json` go to `run/inversion`.

    Of a volume the slice that shows most is taken. The net is the attack's own, untrained: the first update of a
    federation tells most.
    """
    known, out = Predictor(super_model), Path(run) / INVERSION
    site = find_sites(store.root)[0]
    digest = training_splits(super_model, store.root).get(site)
    item = store.items(site, "test", known.study, known.task, digest)[0]
    small = Preprocess(image_size=SIZE, **known.study.preprocess.model_dump())
    found = load_samples(store.root / site, [item], known.task, small)
    fullest = int(found.masks.flatten(1).sum(dim=1).argmax())
    image, mask = found.images[fullest : fullest + 1], found.masks[fullest : fullest + 1].float()
    results, seen = attack(image, mask)
    names = ["image.png", *(f"seen-{number}.png" for number in range(len(seen)))]
    for name, picture in zip(names, [image, *seen], strict=True):
        atomic_write(out / name, pixels(picture).save)
    ways = [asdict(one) | {"picture": name} for one, name in zip(results, names[1:], strict=True)]
    atomic_write_json(out / INVERSION_INDEX, {"site": site, "image": item.name, "picture": names[0], "ways": ways})
