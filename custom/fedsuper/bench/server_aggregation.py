"""What a round costs the server of FedSM beyond the sites' work: time against one numpy pass, memory in models.

The pass is the running sum in float64 that any mean needs, over the same bytes: K global and K personalized models. The
net is the papers' (UNet 16..256, two residual units, 6.5 MB); 384 sites have a small one, to see that time is linear.
What a checkpoint writes is counted in bytes, against all models and all best ones that make up the server's state.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from fedsuper.bench.peak_memory import MEGABYTE, scratch_megabytes
from fedsuper.bench.resting_models import LARGE_MEMORY, LARGE_NET, LARGE_SITES, compared
from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.core.state import State
from fedsuper.core.supermodel import GLOBAL
from fedsuper.data.task import Task
from fedsuper.federation.checkpoints import RoundWriter
from fedsuper.methods import create_method
from fedsuper.methods.protocol.nets import first_segmentation
from fedsuper.methods.protocol.role import PERSONAL
from fedsuper.methods.protocol.server import Server, Update

SITES, MANY = (6, 24, 96), 384
PAPER = {"channels": [16, 32, 64, 128, 256], "residual_units": 2}
SMALL = {"channels": [4, 8, 16], "residual_units": 2}
TASK = Task.from_json({"task": "retina", "channels": 3, "regions": {"disc": [1, 2], "cup": [2]}})
REPEATS = 5
MOST_PASSES, MOST_MODELS, MOST_UNEVEN = 3.0, 4.0, 1.5


def run(out: Path) -> dict[str, Any]:
    """Every number of sites in turn; processor seconds of a single thread."""
    torch.set_num_threads(1)
    found = {str(count): cost(PAPER, count) for count in SITES}
    few, many = (cost(SMALL, count) for count in (MANY // 4, MANY))
    uneven = many["least_seconds"] / (4 * few["least_seconds"])
    most = found[str(SITES[-1])]
    rest = compared(study_with(PAPER), study_with(SMALL), TASK, SITES, out)
    written = checkpoints(PAPER, SITES[0], out / "checkpoints")
    return {
        "setting": f"FedSM, UNet 16..256 with two residual units, K = {', '.join(found)}; 1 thread",
        "sites": found | {f"{MANY} (small net)": many},
        "time_of_384_over_4_times_96": uneven,
        "models_at_rest": rest,
        f"checkpoints_of_{SITES[0]}_sites": written,
        "promises": {
            f"K = {SITES[-1]} within {MOST_PASSES:g} numpy passes over the same bytes": most["passes"] <= MOST_PASSES,
            f"scratch of at most {MOST_MODELS:g} models": all(
                each["scratch_models"] <= MOST_MODELS for each in found.values()),
            "time is linear in K up to 384": uneven <= MOST_UNEVEN,
            f"{LARGE_SITES} sites of {LARGE_NET:g} MB fit in {LARGE_MEMORY:g} MB at rest on disk, by the estimate":
                rest["estimate_megabytes"] <= LARGE_MEMORY,
            "a checkpoint writes the models that are new and no other": all(
                written[f"megabytes_{kind}"] <= written["megabytes_first"]  # all models, each at once the best
                for kind in ("where_no_best_changes", "where_every_best_changes")),
        },
    }


def cost(net: dict[str, Any], count: int) -> dict[str, float]:
    """Seconds and scratch of an aggregation for `count` sites, and the pass it is compared with, in turn."""
    server, updates = round_of(net, count)
    method = create_method(server.study)
    uploads = [state for update in updates.values() for state in update.models.values()]
    size = sum(tensor.nbytes for tensor in uploads[0].values()) / MEGABYTE
    made = (count + 1) * size  # the new global model and a personalized one a site
    scratch = scratch_megabytes(lambda: method.aggregate(server, updates), made)  # first: freed memory is held back
    seconds, passes = [], []
    for _ in range(REPEATS):
        passes.append(_seconds(lambda: numpy_pass(uploads)))
        seconds.append(_seconds(lambda: method.aggregate(server, updates)))
    return {
        "seconds": median(seconds),
        "least_seconds": min(seconds),
        "numpy_pass_seconds": median(passes),
        "passes": median(one / other for one, other in zip(seconds, passes, strict=True)),
        "megabytes_received": len(uploads) * size,
        "scratch_models": scratch / size,
    }


def checkpoints(net: dict[str, Any], count: int, folder: Path) -> dict[str, float]:
    """Megabytes that the checkpoint of a round writes: the first one, one without a new best, one of new bests only."""
    server, updates = round_of(net, count)
    shutil.rmtree(folder, ignore_errors=True)
    found, before = {}, 0
    with RoundWriter(folder) as writer:
        for kind in ("first", "where_no_best_changes", "where_every_best_changes"):
            sent, server.round = server.models, server.round + 1
            server.models = {GLOBAL: updates[server.sites[0]].models[GLOBAL]} | {
                f"{PERSONAL}/{site}": update.models[PERSONAL] for site, update in updates.items()}
            server.models = {key: {name: tensor + server.round for name, tensor in state.items()}
                             for key, state in server.models.items()}
            if kind != "where_no_best_changes":
                for key, state in (sent or server.models).items():
                    server.note_score(key, server.round, state)
            writer.save(server)
            writer.wait()
            found[f"megabytes_{kind}"] = (writer.files.written - before) / MEGABYTE
            before = writer.files.written
    shutil.rmtree(folder)
    sizes = [sum(tensor.nbytes for state in models.values() for tensor in state.values()) / MEGABYTE
             for models in (server.models, server.best_models)]
    return found | {"megabytes_of_new_models": sizes[0], "megabytes_of_the_whole_state": sum(sizes)}


def study_with(net: dict[str, Any]) -> Study:
    """FedSM with this net and the closed-form selector."""
    return parse_study({"method": "fedsm", "model": net, "selector": {"kind": "statistics"}})


def round_of(net: dict[str, Any], count: int) -> tuple[Server, dict[str, Update]]:
    """A server in mid-study and what `count` sites sent it: models near one another, as after an epoch."""
    study = study_with(net)
    first = first_segmentation(study, TASK)
    random = torch.Generator().manual_seed(0)

    def moved() -> State:
        return {name: tensor + 0.01 * torch.randn(tensor.shape, generator=random) for name, tensor in first.items()}

    sites = [f"site-{index:03d}" for index in range(count)]
    updates = {site: Update({GLOBAL: moved(), PERSONAL: moved()}, 10) for site in sites}
    return Server(study, TASK, sites, dict.fromkeys(sites, 10)), updates


def numpy_pass(states: list[State]) -> list[np.ndarray]:
    """The sum of all states in float64."""
    totals = [np.zeros(tensor.shape) for tensor in states[0].values()]
    for state in states:
        for total, tensor in zip(totals, state.values(), strict=True):
            np.add(total, tensor.numpy(), out=total)
    return totals


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started
