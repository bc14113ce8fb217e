"""Golden numbers: the losses and validation scores of every round of a tiny study, kept in git.

A change in any of them is a change in what is computed. If it is meant, write the new numbers with
`python tests/golden/test_golden.py` and say why in the commit.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from fedsuper.config.reading import parse_study
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.engines.in_process import run_local
from fedsuper.federation.progress import Silent

NUMBERS = Path(__file__).with_name("tiny.json")
METHODS = ("fedsm", "fedavg", "local", "centralized")
STUDY = {
    "rounds": 3,
    "image_size": 32,
    "model": {"channels": [4, 8], "norm": "batch"},
    "optimizer": {"lr": 0.01},
    "fedsm": {"lambda": 0.6},
}
# Other processors round otherwise. A loss is smooth; the Dice of a few hard masks jumps by whole pixels.
LOSS_TOLERANCE, DICE_TOLERANCE = 2e-3, 1e-2


def compute(method: str, folder: Path) -> dict[str, Any]:
    root = folder / "root"
    if not root.exists():
        write_retina(root, sites=3, images=36, size=48, seed=0, difficulty="easy")
    super_model = run_local(parse_study({**STUDY, "method": method}), root, folder / method, Silent())
    history = super_model.manifest["history"]
    return {"gamma": super_model.manifest["gamma"], "rounds": [entry["sites"] for entry in history]}


@pytest.mark.parametrize("method", METHODS)
def test_every_round_gives_the_golden_numbers(method: str, tmp_path: Path) -> None:
    golden = json.loads(NUMBERS.read_text())[method]
    found = compute(method, tmp_path)
    assert found["gamma"] == golden["gamma"]
    assert len(found["rounds"]) == len(golden["rounds"])
    for number, (now, then) in enumerate(zip(found["rounds"], golden["rounds"], strict=True), start=1):
        assert now.keys() == then.keys()
        for site, metrics in then.items():
            assert now[site].keys() == metrics.keys()
            for name, value in metrics.items():
                allowed = DICE_TOLERANCE if name.startswith(("val/", "val-region/")) else LOSS_TOLERANCE
                assert now[site][name] == pytest.approx(value, abs=allowed), f"{method}, round {number}, {site}, {name}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        numbers = {method: compute(method, Path(temporary)) for method in METHODS}
    NUMBERS.write_text(json.dumps(numbers, indent=1) + "\n")
