"""What selecting is worth at hospitals outside that look like a site: `python -m ...at_neighbors --out RUN short:0,1`.

Every federation meets the same neighbors (`neighbors`). Prints, by way to predict, the mean Dice over neighbors, a
column a kind, and at how many of them a way is better and worse than the global model by .005 or more; means over
federations.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import torch

from fedsuper.core.mode import GLOBAL
from fedsuper.core.validated.selection_choice import EXPECTED_DICE, THRESHOLD, Selection
from fedsuper.data.prepared.samples import Samples
from fedsuper.errors import FedSuperError, exit_code
from fedsuper.evaluation.run_files.names import SUPER_MODEL
from fedsuper.files import atomic_write_json
from fedsuper.inference.artifact import load_super_model
from fedsuper.inference.gamma import image_dice
from fedsuper.inference.modes import mode_class
from fedsuper.inference.modes.base import ModeOptions
from fedsuper.inference.modes.select import Select
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.familiarity import Familiarity
from fedsuper.inference.selection.gate_statistics import expert_dice
from fedsuper.inference.slice_batch import SliceBatch
from fedsuper.studies.selection.every_option import asked, markdown, short
from fedsuper.studies.selection.federations import KINDS, trained
from fedsuper.studies.selection.neighbors import write_neighbors
from fedsuper.studies.selection.scored_options import ORACLE, hospital_images, towards_one_row

NEIGHBORS = 18
WORTH = 0.005  # of Dice: less is no difference for a hospital
MIXED = ("ensemble", "agree", "mix")
SELECT = "select"
# Images less familiar than this to the global model instead; the first is where a person is asked to look.
LIMITS = (0.05, 0.2, 0.5)
Scores = Mapping[tuple[str, int], Mapping[str, Mapping[str, float]]]  # by kind and seed: by way, by neighbor


def main(arguments: list[str] | None = None) -> int:
    """Train what is not there, draw the neighbors, score, print; `RUN/neighbors.json` has every number."""
    parser = argparse.ArgumentParser(prog="fedsuper.studies.selection.at_neighbors", description=__doc__)
    parser.add_argument("federations", nargs="+", metavar="KIND:SEED,SEED")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--neighbors", type=int, default=NEIGHBORS)
    options = parser.parse_args(arguments)

    def table() -> str:
        pairs = asked(options.federations)
        strange = [kind for kind, _ in pairs if not KINDS[kind].eyes]
        if strange:
            raise FedSuperError(f"'{strange[0]}': its hospitals have no neighbors; take "
                                f"{', '.join(kind for kind, how in KINDS.items() if how.eyes)}")
        found = {pair: _at_all(*pair, options.out, options.neighbors) for pair in pairs}
        told = {f"{kind}-{seed}": ways for (kind, seed), ways in found.items()}
        atomic_write_json(options.out / "neighbors.json", told)
        return neighbors_markdown(found)

    return exit_code(table)


def neighbors_markdown(found: Scores) -> str:
    """A line a way to predict: Dice by kind and over kinds, less the global model's, and who gains and loses."""
    kinds = list(dict.fromkeys(kind for kind, _ in found))
    lines = [["", *kinds, "mean", "less global", "better", "worse"], ["---", *["---:"] * (len(kinds) + 4)]]

    def mean(way: str, kind: str) -> float:
        return fmean(fmean(ways[way].values()) for (one, _), ways in found.items() if one == kind)

    for way in next(iter(found.values())):
        by_kind = [mean(way, kind) for kind in kinds]
        gains = [fmean(ways[way][each] - ways[GLOBAL][each] for ways in found.values())
                 for each in next(iter(found.values()))[way]]
        lead = fmean(by_kind) - fmean(mean(GLOBAL, kind) for kind in kinds)
        lines.append([way, *(short(value) for value in [*by_kind, fmean(by_kind)]), short(lead, "+"),
                      str(sum(gain >= WORTH for gain in gains)), str(sum(gain <= -WORTH for gain in gains))])
    return markdown(lines)


def _at_all(kind: str, seed: int, out: Path, count: int) -> dict[str, dict[str, float]]:
    predictor = Predictor(load_super_model(trained(kind, seed, out).run / SUPER_MODEL))
    pixels = KINDS[kind].eyes
    found: dict[str, dict[str, float]] = {}
    for folder in write_neighbors(out / f"neighbors-{pixels}", count, pixels):
        for way, dice in neighbor_scores(*hospital_images(predictor, folder)).items():
            found.setdefault(way, {})[folder.name] = float(dice.mean())
    return found


def neighbor_scores(batch: SliceBatch, samples: Samples) -> dict[str, torch.Tensor]:
    """Dice of every image (photographs: a slice each) by every way to predict."""
    predictor, experts = batch.predictor, expert_dice(batch, samples)
    kind = predictor.selection.kind
    by_threshold, by_dice = (
        Select(predictor, ModeOptions(selection=Selection(kind, gate))) for gate in (THRESHOLD, EXPECTED_DICE)
    )

    def taken(mode: Select) -> torch.Tensor:
        chosen = mode.predict(batch).chosen
        return torch.stack([experts[name][at] for at, name in enumerate(chosen)])

    found = {GLOBAL: experts[GLOBAL], SELECT: taken(Select(predictor, ModeOptions()))}
    found[f"{SELECT}, {THRESHOLD}"] = taken(by_threshold)
    judge = Familiarity.of(predictor)
    if judge is not None:
        usual = judge.familiarity_at(batch.distances(judge))
        found |= {f"{SELECT}, global model below familiarity {limit:g}":
                  found[SELECT].where(usual >= limit, experts[GLOBAL]) for limit in LIMITS}
    if by_dice.weighed is not None:
        by_dice.weighed.table = towards_one_row(by_dice.weighed, predictor.super_model)
        found[f"{SELECT}, U shrunk to one mean row"] = taken(by_dice)
    for name in MIXED:
        mode = mode_class(name)(predictor, ModeOptions())
        found[name] = image_dice(mode.predict(batch).probabilities > 0.5, samples, batch.sizes)
    return found | {ORACLE: torch.stack(list(experts.values())).amax(dim=0)}


if __name__ == "__main__":
    sys.exit(main())
