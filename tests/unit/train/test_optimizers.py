"""The optimizers are torch's to the bit, and a process that trains imports neither torch's compiler nor MONAI."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from fedsuper.train import optimizers

TRAINS = """
import sys
import torch
from fedsuper.config import Study
from fedsuper.models.build import build_segmentation, build_selector
from fedsuper.train.device import Compute
from fedsuper.train.learner import make_optimizer
study = Study()
Compute.from_config(study.compute)
with torch.device("meta"):
    build_selector(study.selector, 3, 2)
net = build_segmentation(study.model, 3, 2)
optimizer = make_optimizer(list(net.parameters()), study.optimizer)
optimizer.zero_grad()
net(torch.zeros(1, 3, 32, 32)).sum().backward()
optimizer.step()
optimizer.load_state_dict(optimizer.state_dict())
print(*sorted({"torch._dynamo", "torch._inductor", "sympy", "monai", "sklearn", "pandas"} & set(sys.modules)), "end")
"""


@pytest.mark.parametrize(("name", "options"), [("Adam", {}), ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
                                               ("SGD", {"momentum": 0.9})])
def test_steps_are_torchs(name: str, options: dict[str, Any]) -> None:
    start = torch.randn(5, 3)
    found = []
    for home in (optimizers, torch.optim):
        weight = torch.nn.Parameter(start.clone())
        optimizer = getattr(home, name)([weight], 0.1, **options)
        for step in range(4):
            optimizer.zero_grad()
            (weight * step).square().sum().backward()
            optimizer.step()
        found.append(weight.detach())
    assert torch.equal(*found) and torch.is_grad_enabled()


def test_training_does_not_import_a_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", TRAINS], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "end\n"
