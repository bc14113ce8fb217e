"""What travels in a round of FedSM, per site and direction, counted on real messages.

The way down was once promised as one model in float32. FedSM's own equations need two, which no algebra brings down to
one (docs/explanation/traffic.md): two independent means, the global model's and that of the personalized ones. What is
promised now is two models in 32 bits and the bytes of one in 16. With the closed-form selector nothing else travels.

The hand-over is counted too, as the server makes it, for K sites of the papers' net: with every model at every site it
grows with K^2, with at most `federation.handover` models a site with K.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from fedsuper.bench.epoch_cost import SITES, site_with
from fedsuper.bench.server_aggregation import TASK
from fedsuper.config.reading import parse_study
from fedsuper.config.sections import FederationConfig
from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.mode import SELECT
from fedsuper.core.state import Models, State
from fedsuper.core.supermodel import SuperModel
from fedsuper.federation.completion.calibration import Calibration
from fedsuper.federation.completion.shares import Shares
from fedsuper.federation.door.last_replies import HandoverReply
from fedsuper.federation.door.replies import TrainReply
from fedsuper.federation.ledger.traffic import MEGABYTE, size_of
from fedsuper.federation.messages import HANDOVER, TRAIN, Message
from fedsuper.federation.outlet.declared import declared_models
from fedsuper.federation.precision.downward import going_down
from fedsuper.federation.precision.upward import going_up
from fedsuper.methods import create_method
from fedsuper.methods.protocol.nets import first_segmentation
from fedsuper.methods.protocol.server import Server

MOST_FULL, MOST_NARROW = 13.0, 6.5
ROUNDING = 0.05  # megabytes; the promises are given to a tenth
SIDE = 32  # of the images that the site trains on; bytes do not depend on it
COUNTS = (6, 24, 96)
FEATURES = 126  # numbers an image that feature sums are over, with this net
MOST_UNEVEN = 1.05  # bytes a site at the most sites over those at a quarter of them


def run(out: Path) -> dict[str, Any]:
    """FedSM with each kind of selector and each type on the wire."""
    limits = {"fp32": MOST_FULL, "fp16": MOST_NARROW, "bf16": MOST_NARROW}
    found = {(kind, wire): traffic(kind, wire) for kind in ("trained", "statistics") for wire in limits}
    ways: dict[str, int | str] = {"all": "all", "bounded": FederationConfig().handover, "own": "own"}
    handed = {(count, how): handover(count, most) for how, most in ways.items() for count in COUNTS}
    *_, few, many = COUNTS
    uneven = handed[many, "bounded"] / many / (handed[few, "bounded"] / few)
    return {
        "setting": "FedSM, UNet 16..256 with two residual units, a site and round",
        **{f"selector_{kind}, {wire}": numbers for (kind, wire), numbers in found.items()},
        "hand_over_megabytes": {f"{count} sites, {how}": total for (count, how), total in handed.items()},
        "promises": {"the hand-over is linear in K": uneven <= MOST_UNEVEN} | {
            f"{wire}: at most {most:g} MB {way}": found["statistics", wire][f"megabytes_{way}"] <= most + ROUNDING
            for wire, most in limits.items() for way in ("down", "up")
        },
    }


def traffic(selector: str, wire: str = "fp32") -> dict[str, float]:
    """Megabytes of the message to a site, of its answer, and of one model as it is held."""
    study = parse_study({"method": "fedsm", "image_size": SIDE, "selector": {"kind": selector}, "wire": wire,
                         "model": {"residual_units": 2}})
    site = site_with(study, SIDE)
    method = create_method(study)
    sites = [f"site-{index}" for index in range(SITES)]
    server = Server(study, site.task, sites, dict.fromkeys(sites, len(site.train)))
    server.models = method.start(server)
    heard, packed = going_down(server, method, sites[:1])
    site.received = dict(heard[site.name])
    declared = declared_models(TRAIN, method, server, site.name, heard[site.name])
    models = going_up(site, method.local_update(site), lambda: declared)
    answer = TrainReply(round=0, samples=len(site.train), metrics={"val/global": 0.5})
    return {
        "megabytes_down": size_of(Message(packed[site.name], {"study": study.to_json()})) / MEGABYTE,
        "megabytes_up": size_of(answer.message(models)) / MEGABYTE,
        "model_megabytes": _bytes(next(iter(site.received.values()))) / MEGABYTE,
    }


def handover(count: int, most: int | str) -> float:
    """Megabytes down to all sites together from the first message after the last round to the last one but scores."""
    study = parse_study({"method": "fedsm", "selector": {"kind": "statistics"}, "model": {"residual_units": 2}})
    sites = [f"site-{index:03d}" for index in range(count)]
    state = first_segmentation(study, TASK)
    model = SuperModel(sites, state, dict.fromkeys(sites, state), mode=SELECT)
    model.manifest = {"study": study.to_json(), "mode": SELECT}
    random = torch.Generator().manual_seed(0)
    rows = {site: torch.randn(20, FEATURES, generator=random) + 3 * torch.randn(1, generator=random) for site in sites}
    sent = 0

    def tell(task: str, now: SuperModel, models: Callable[[str], Models], wanted: str) -> Mapping[str, Any]:
        nonlocal sent
        sent += sum(size_of(Message(models(site), {"manifest": now.manifest})) for site in sites)
        told = {site: (HandoverReply(round=0, calibration={}), FeatureSums.of(each)) for site, each in rows.items()}
        return told if task == HANDOVER else {}

    Calibration(study.selector, Shares(model, most), tell, lambda _: {}, lambda _: None).run(model)
    return sent / MEGABYTE


def _bytes(state: State) -> int:
    return sum(tensor.nbytes for tensor in state.values())
