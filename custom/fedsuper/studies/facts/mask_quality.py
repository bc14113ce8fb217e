"""How well masks are judged without labels, and from whose masks that is best learned: `python -m ...mask_quality RUN`.

RUN is a folder of `fedsuper.studies.adaptation.few_labels`. The estimate (`core.validated.quality`) is made again from
the sites' validation images under every model, as a super model brings it, and under the models that are not a site's
own; both are held against the labels of the sites' test images and of the two hospitals outside.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import torch

from fedsuper.core.feature_sums import MINIMUM_IMAGES, FeatureSums
from fedsuper.core.metrics import dice_scores
from fedsuper.core.mode import GLOBAL
from fedsuper.core.validated.quality import QualityModel, fit_quality
from fedsuper.data.dataset import load_samples
from fedsuper.data.prepared.samples import Samples
from fedsuper.data.splits import RATIOS, split_folder
from fedsuper.inference.artifact import load_super_model
from fedsuper.inference.masks.mask_features import mask_features
from fedsuper.inference.predictor import Predictor
from fedsuper.studies.adaptation.few_labels import KINDS, SITE
from fedsuper.studies.adaptation.images import labeled_samples, read_site

EVERY, OTHERS = "every model", "not the own"


def main(arguments: list[str] | None = None) -> int:
    """Print the table, means over seeds."""
    parser = argparse.ArgumentParser(prog="fedsuper.studies.facts.mask_quality", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--seeds", default="100,101,102,103")
    options = parser.parse_args(arguments)
    found: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for seed in options.seeds.split(","):
        for key, row in judged(options.run / f"seed-{seed}").items():
            found[key].append(row)
    print("| masks | learned from | Spearman | AUROC, worst fifth | mean error | bias | in the interval |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for (where, learned), rows in found.items():
        means = torch.tensor(rows, dtype=torch.float64).mean(dim=0).tolist()
        print(f"| {where} | {learned} | " + " | ".join(f"{one:.3f}" for one in means) + " |")
    return 0


def judged(folder: Path) -> dict[tuple[str, str], list[float]]:
    """By masks and by what was learned from: Spearman, AUROC, mean error, bias, share in the interval."""
    predictor = Predictor(load_super_model(folder / "run" / "supermodel"))
    study, root = predictor.study, folder / KINDS[0]
    learned: dict[str, list[FeatureSums]] = {EVERY: [], OTHERS: []}
    inside = []
    for site in predictor.super_model.sites:
        split = split_folder(root / site, predictor.task, RATIOS[study.split.ratios], study.split.seed)
        val, test = (load_samples(root / site, split[part], predictor.task, predictor.preprocess)
                     for part in ("val", "test"))
        inside.append(_rows(predictor, site, test))
        if len(val) >= MINIMUM_IMAGES:
            rows = {name: _rows(predictor, name, val) for name in predictor.experts}
            learned[EVERY].append(FeatureSums.of(torch.cat(list(rows.values()))))
            learned[OTHERS].append(FeatureSums.of(torch.cat([part for name, part in rows.items() if name != site])))
    masks = {"inside, the own model": torch.cat(inside)}
    for kind in KINDS:
        outside = read_site(predictor, root.with_name(f"{kind}-outside") / SITE)
        masks[f"{kind}, global model"] = _rows(predictor, GLOBAL, labeled_samples(predictor, outside))
    models = {name: fit_quality(sums) for name, sums in learned.items()}
    return {(where, name): held_against(model, rows) for where, rows in masks.items()
            for name, model in models.items() if model is not None}


def held_against(model: QualityModel, rows: torch.Tensor) -> list[float]:
    """An estimate beside the truth, of rows (psi, Dice)."""
    from scipy.stats import spearmanr

    told = torch.tensor([model.estimate(row[:-1]) for row in rows], dtype=torch.float64)
    value, low, high = told.unbind(dim=1)
    truth = rows[:, -1]
    order = truth.argsort()
    worst = max(1, len(truth) // 5)
    bad, good = value[order[:worst]][:, None], value[order[worst:]][None]
    ranked = ((bad < good).double() + 0.5 * (bad == good).double()).mean()
    inside = ((truth >= low) & (truth <= high)).double().mean()
    return [float(spearmanr(value, truth)[0]), float(ranked), float((value - truth).abs().mean()),
            float((value - truth).mean()), float(inside)]


def _rows(predictor: Predictor, name: str, samples: Samples) -> torch.Tensor:
    """(psi, Dice) of a model's mask of every image."""
    said = predictor.logits(name, samples.images).sigmoid()
    dice = dice_scores(said > 0.5, samples.masks).mean(dim=1).double()
    return torch.stack([torch.cat([mask_features(said[at:at + 1]), dice[at:at + 1]]) for at in range(len(samples))])


if __name__ == "__main__":
    raise SystemExit(main())
