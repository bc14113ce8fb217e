"""What lying sites cost FedSM, with and without a robust rule: the table of docs/results/robustness.md.

    python -m fedsuper.studies.robustness --out runs/robustness

Six synthetic hospitals, of which the first one or two lie in every round; the others' mean test Dice is what counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.core.state import State
from fedsuper.data.prepared.samples import Samples
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.engines.in_process import LocalExchange, sites_of
from fedsuper.federation.messages import TRAIN, Message, SiteFailure
from fedsuper.federation.progress import Progress
from fedsuper.federation.server_loop import Federation
from fedsuper.federation.site_data import SiteData
from fedsuper.federation.site_worker import SiteWorker
from fedsuper.files import atomic_write_text
from fedsuper.methods.protocol.role import SELECTOR

SITES, IMAGES, SIZE = 6, 120, 48
STUDY = {"method": "fedsm", "rounds": 5, "image_size": 32, "optimizer": {"lr": 0.01},
         "model": {"channels": [4, 8, 16], "residual_units": 0, "norm": "batch"}}
RULES = ("none", "clip", "median", "trimmed")
LIARS = (1, 2)

Attack = Callable[[torch.Tensor, torch.Tensor, torch.Generator], torch.Tensor]
# Of what was received and what was trained: what is sent. `label` is honest training on empty masks.
ATTACKS: dict[str, Attack] = {
    "sign flip": lambda start, end, _: start - 2 * (end - start),
    "boost": lambda start, end, _: start + 6 * (end - start),
    "random": lambda start, end, random: start + 3 * (end - start).std(correction=0) * torch.randn(
        end.shape, generator=random, dtype=end.dtype),
    "label": lambda start, end, _: end,
}
ON_EMPTY_MASKS = {"boost", "label"}


class EmptyMasks(SiteData):
    """A site whose training labels show nothing."""

    def samples(self, study: Study, part: str) -> Samples:
        whole = super().samples(study, part)
        return replace(whole, masks=torch.zeros_like(whole.masks)) if part == "train" else whole


class LyingExchange(LocalExchange):
    """The in-process exchange in which `liars` change what they trained before they send it."""

    def __init__(self, workers: dict[str, SiteWorker], liars: set[str], attack: str) -> None:
        super().__init__(workers)
        self.liars = liars
        self.attack = attack
        for site in liars if attack in ON_EMPTY_MASKS else ():
            worker = workers[site]
            worker.data = EmptyMasks(site, worker.data_root, worker.state_folder)

    def _one(self, task: str, site: str, message: Message) -> Message | SiteFailure:
        reply = super()._one(task, site, message)
        if site not in self.liars or task != TRAIN or isinstance(reply, SiteFailure):
            return reply
        return Message({role: self._lie(role, message.models[role], state) for role, state in reply.models.items()},
                       reply.info)

    def _lie(self, role: str, start: State, end: State) -> State:
        random = torch.Generator().manual_seed(7)
        lie = ATTACKS[self.attack]

        def told(name: str, tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.is_floating_point():
                return tensor
            origin = torch.zeros_like(tensor) if role == SELECTOR else start[name]  # the selector's is a gradient
            changed = lie(origin, tensor, random)
            return changed.clamp(min=0) if name.endswith("running_var") else changed

        return {name: told(name, tensor) for name, tensor in end.items()}


def honest_dice(root: Path, folder: Path, rule: str, attack: str | None, liars: int, seed: int = 0) -> float:
    """Mean test Dice of the sites that never lie in any row, so that rows can be compared."""
    study = parse_study({**STUDY, "seed": seed, "federation": {"robust": rule}})
    sites = sites_of(study, root)
    workers = {site: SiteWorker(site, root, folder / "sites" / site) for site in sites}
    exchange = LyingExchange(workers, set(sites[:liars]) if attack else set(), attack or "label")
    with Progress(f"{attack or 'honest'}, {liars} of {SITES}, {rule}, seed {seed}", None) as progress:
        super_model = Federation(study, exchange, folder / "server", progress).run()
    scores = super_model.manifest["metrics"]["test"]
    honest = sites[max(LIARS):]
    return sum(float(scores[site][site]["mean"]) for site in honest) / len(honest)


def table(out: Path, seeds: Sequence[int]) -> str:
    """The whole table in Markdown, means over `seeds`."""
    root = out / "data"
    if not root.exists():
        write_retina(root, sites=SITES, images=IMAGES, size=SIZE, seed=0, difficulty="easy")
    rows: list[tuple[str, str | None, int]] = [("nobody", None, 0)]
    rows += [(f"{attack}, {liars} of {SITES}", attack, liars) for attack in ATTACKS for liars in LIARS]
    lines = ["| who lies | " + " | ".join(f"`{rule}`" for rule in RULES) + " |", "|---" * (len(RULES) + 1) + "|"]
    for title, attack, liars in rows:
        dice = {rule: [honest_dice(root, out / f"{title}-{rule}-{seed}".replace(" ", "-"), rule, attack, liars, seed)
                       for seed in seeds] for rule in RULES}
        lines.append(f"| {title} | " + " | ".join(f"{fmean(values):.3f}" for values in dice.values()) + " |")
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the table to OUT/robustness.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", default="0,1", help="comma-separated; the table shows their mean")
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    atomic_write_text(options.out / "robustness.md", table(options.out, seeds))


if __name__ == "__main__":
    main()
