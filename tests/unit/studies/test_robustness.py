"""The lies of the robustness study are what they are called."""

from __future__ import annotations

import torch

from fedsuper.methods.protocol.role import SELECTOR
from fedsuper.studies.robustness import ATTACKS, LyingExchange

START = {"w": torch.tensor([1.0, 2.0]), "bn.running_var": torch.tensor([1.0]), "n": torch.tensor(3)}
END = {"w": torch.tensor([1.5, 1.0]), "bn.running_var": torch.tensor([3.0]), "n": torch.tensor(4)}


def told(attack: str, role: str = "global") -> dict[str, torch.Tensor]:
    return LyingExchange({"a": None}, set(), attack)._lie(role, START, END)  # type: ignore[dict-item]


def test_each_attack_changes_what_was_trained_its_own_way() -> None:
    assert told("sign flip")["w"].tolist() == [0.0, 4.0]
    assert told("boost")["w"].tolist() == [4.0, -4.0]
    assert torch.equal(told("label")["w"], END["w"])
    assert not torch.equal(told("random")["w"], END["w"])
    assert told("sign flip", SELECTOR)["w"].tolist() == [-3.0, -2.0], "a gradient is turned around as it is"


def test_a_lie_stays_within_what_the_door_lets_in() -> None:
    for attack in ATTACKS:
        state = told(attack)
        assert float(state["bn.running_var"].min()) >= 0 and int(state["n"]) == 4
        assert all(bool(torch.isfinite(tensor.float()).all()) for tensor in state.values())
