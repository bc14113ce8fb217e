"""What travels in a round of FedSM, per site and direction, counted on real messages.

The way down was once promised as one model in float32. FedSM's own equations need two, which no algebra brings down to
one (docs/explanation/traffic.md): two independent means, the global model's and that of the personalized ones. What is
promised now is two models in 32 bits and the bytes of one in 16. With the closed-form selector nothing else travels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedsuper.bench.epoch_cost import SITES, site_with
from fedsuper.config.reading import parse_study
from fedsuper.core.state import State
from fedsuper.federation.door.replies import TrainReply
from fedsuper.federation.ledger.traffic import MEGABYTE, size_of
from fedsuper.federation.messages import TRAIN, Message
from fedsuper.federation.outlet.declared import declared_models
from fedsuper.federation.precision.downward import going_down
from fedsuper.federation.precision.upward import going_up
from fedsuper.methods import create_method
from fedsuper.methods.protocol.server import Server

MOST_FULL, MOST_NARROW = 13.0, 6.5
ROUNDING = 0.05  # megabytes; the promises are given to a tenth
SIDE = 32  # of the images that the site trains on; bytes do not depend on it


def run(out: Path) -> dict[str, Any]:
    """FedSM with each kind of selector and each type on the wire."""
    limits = {"fp32": MOST_FULL, "fp16": MOST_NARROW, "bf16": MOST_NARROW}
    found = {(kind, wire): traffic(kind, wire) for kind in ("trained", "statistics") for wire in limits}
    return {
        "setting": "FedSM, UNet 16..256 with two residual units, a site and round",
        **{f"selector_{kind}, {wire}": numbers for (kind, wire), numbers in found.items()},
        "promises": {
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


def _bytes(state: State) -> int:
    return sum(tensor.nbytes for tensor in state.values())
