"""What test-time routing costs: a tuning step in plain forward passes, and memory per expert beyond its weights.

The setting is the papers': the UNet 16..256 at 256 pixels, six sites and the global model, ten steps an image.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from fedsuper.bench.peak_memory import peak_megabytes
from fedsuper.config import RoutingConfig
from fedsuper.core.state import State
from fedsuper.inference.routing.tuner import RoutingTuner
from fedsuper.models.build import build_segmentation, first_weights
from fedsuper.models.nets.unet import UNetSettings
from fedsuper.models.routed.routed_net import RoutedNet
from fedsuper.train.device import Compute

NETS = {name: UNetSettings(residual_units=units) for name, units in (("residual", 2), ("plain", 0))}  # FedSM's first
SIZE, CHANNELS, REGIONS, SITES, STEPS = 256, 3, 2, 6, 10
ROUNDS = 5
MOST_FORWARDS_PER_STEP = 12.0
MOST_MEGABYTES_PER_EXPERT = 2.0
MEGABYTE = 1e6


def run(out: Path) -> dict[str, Any]:
    """Measure all in this one run; processor seconds of a single thread, so that other programs matter little."""
    torch.set_num_threads(1)
    costs = {name: cost(net) for name, net in NETS.items()}
    paper = costs["residual"]
    growth = memory_per_expert() - paper["expert_megabytes"]
    most = max(found["forwards_per_step"] for found in costs.values())
    return {
        "setting": f"UNet 16..256, {SIZE} px, {SITES + 1} experts, {STEPS} steps an image, 1 thread",
        **paper,
        "without_residual_units": costs["plain"],
        "megabytes_per_expert_beyond_weights": growth,
        "promises": {
            f"a step costs at most {MOST_FORWARDS_PER_STEP:g} forward passes": most <= MOST_FORWARDS_PER_STEP,
            f"an expert costs less than {MOST_MEGABYTES_PER_EXPERT:g} MB beyond its weights":
                growth < MOST_MEGABYTES_PER_EXPERT,
        },
    }


def cost(net: UNetSettings) -> dict[str, float]:
    """Seconds of a plain forward pass and of a tuning step, taken in turn, so that both meet the same machine."""
    experts = make_experts(SITES + 1, net)
    tuner, image = make_tuner(experts, net), make_image()
    plain = build_segmentation(net, CHANNELS, REGIONS).eval()

    @torch.no_grad()
    def forward() -> None:
        for _ in range(STEPS):
            plain(image)

    forward()
    forwards, steps = [], []
    for _ in range(ROUNDS):
        forwards.append(_seconds(forward) / STEPS)
        steps.append(_seconds(lambda: tuner.tune([image])) / STEPS)
    return {
        "forward_seconds": median(forwards),
        "step_seconds": median(steps),
        "forwards_per_step": median(step / one for step, one in zip(steps, forwards, strict=True)),
        "seconds_per_image": median(steps) * STEPS,
        "expert_megabytes": sum(tensor.numel() * tensor.element_size() for tensor in experts[0].values()) / MEGABYTE,
    }


def memory_per_expert(few: int = 3, many: int = 11, repeats: int = 2) -> float:
    """Megabytes by which the peak memory of a process that loads experts and tunes on an image grows per expert."""
    def peak(count: int) -> float:
        command = [sys.executable, "-m", "fedsuper.bench.routing", str(count)]
        found = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(repeats)]
        return min(float(json.loads(text)["peak_megabytes"]) for text in found)

    return (peak(many) - peak(few)) / (many - few)


def make_experts(count: int, net: UNetSettings = NETS["residual"]) -> list[State]:
    """Untrained models with weights of their own; what the weights are does not change the cost."""
    first = first_weights(lambda: build_segmentation(net, CHANNELS, REGIONS), 0)
    random = torch.Generator().manual_seed(0)
    return [{name: t + 0.01 * torch.randn(t.shape, generator=random) for name, t in first.items()}
            for _ in range(count)]


def make_tuner(experts: list[State], net: UNetSettings = NETS["residual"]) -> RoutingTuner:
    """The routed net over `experts` and its tuner, at the default settings."""
    config = RoutingConfig(epochs=STEPS)
    with torch.device("meta"):
        template = build_segmentation(net, CHANNELS, REGIONS)
    routed = RoutedNet(template, experts, config, torch.Generator().manual_seed(0))
    return RoutingTuner(routed, config, Compute(torch.device("cpu")), seed=0)


def make_image() -> torch.Tensor:
    """A prepared image: zero mean, unit variance."""
    return torch.randn(1, CHANNELS, SIZE, SIZE, generator=torch.Generator().manual_seed(1))


def _seconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def _peak(count: int) -> None:
    torch.set_num_threads(1)
    make_tuner(make_experts(count)).tune([make_image()])
    print(json.dumps({"peak_megabytes": peak_megabytes()}))


if __name__ == "__main__":
    _peak(int(sys.argv[1]))
