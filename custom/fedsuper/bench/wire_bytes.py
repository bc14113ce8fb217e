"""What travels in a round of FedSM, per site and direction, counted on real messages.

The promise for the way down, one model, is not kept, and cannot be in float32 without changing FedSM: a site needs two
means, the global model's and that of the personalized ones. SoftPull is w_k <- lam' w_k + (1 - lam') mean(w), so the
server could send mean(w) to all and let each site pull by itself; that spares the server K pulls, and the wire nothing:
one model comes down for the personalized one either way. With the closed-form selector nothing else travels in a round.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedsuper.bench.epoch_cost import site_with
from fedsuper.config.reading import parse_study
from fedsuper.core.state import State
from fedsuper.federation.door.replies import TrainReply
from fedsuper.federation.ledger.traffic import MEGABYTE, size_of
from fedsuper.federation.messages import Message
from fedsuper.methods import create_method

MOST_DOWN, MOST_UP = 6.5, 13.0
ROUNDING = 0.05  # megabytes; the promises are given to a tenth
SIDE = 32  # of the images that the site trains on; bytes do not depend on it


def run(out: Path) -> dict[str, Any]:
    """FedSM with each kind of selector."""
    found = {kind: traffic(kind) for kind in ("trained", "statistics")}
    closed = found["statistics"]
    return {
        "setting": "FedSM, UNet 16..256 with two residual units, float32, a site and round",
        **{f"selector_{kind}": numbers for kind, numbers in found.items()},
        "promises": {
            f"at most {MOST_DOWN:g} MB down": closed["megabytes_down"] <= MOST_DOWN + ROUNDING,
            f"at most {MOST_UP:g} MB up": closed["megabytes_up"] <= MOST_UP + ROUNDING,
        },
    }


def traffic(selector: str) -> dict[str, float]:
    """Megabytes of the message to a site, of its answer, and of one model."""
    study = parse_study({"method": "fedsm", "image_size": SIDE, "selector": {"kind": selector},
                         "model": {"residual_units": 2}})
    site = site_with(study, SIDE)
    answer = TrainReply(round=0, samples=len(site.train), metrics={"val/global": 0.5})
    sent = Message(site.received, {"study": study.to_json()})
    told = answer.message(create_method(study).local_update(site))
    return {
        "megabytes_down": size_of(sent) / MEGABYTE,
        "megabytes_up": size_of(told) / MEGABYTE,
        "model_megabytes": _bytes(next(iter(site.received.values()))) / MEGABYTE,
    }


def _bytes(state: State) -> int:
    return sum(tensor.nbytes for tensor in state.values())
