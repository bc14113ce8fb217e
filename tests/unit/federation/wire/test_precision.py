"""Models that travel in 16 bits (`wire`): what is rounded off is sent later, and no other type is let in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from paper_sites import TASK, bits, paper_study

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.core.state import Models, State
from fedsuper.engines.in_process import LocalExchange, run_local
from fedsuper.errors import FedSuperError
from fedsuper.federation.checkpoints import load_latest
from fedsuper.federation.door.tensors import check_models
from fedsuper.federation.messages import TRAIN, Message, SiteFailure
from fedsuper.federation.outlet.declared import declared_models
from fedsuper.federation.outlet.release import check_release
from fedsuper.federation.precision.downward import going_down
from fedsuper.federation.precision.rounding import TYPES, rounded, widened
from fedsuper.federation.precision.upward import restored
from fedsuper.federation.progress import Silent
from fedsuper.methods import create_method
from fedsuper.methods.protocol.server import Server
from fedsuper.train.checkpoint import load_models

SITES = ["amber", "birch", "cedar"]


def server_of(study: Study) -> Server:
    server = Server(study, TASK, SITES, dict.fromkeys(SITES, 10))
    server.models = create_method(study).start(server)
    return server


@pytest.mark.parametrize("wire", TYPES)
@pytest.mark.parametrize("size", [1e-3, 1.0, 300.0])
def test_the_running_sum_that_is_received_is_off_by_one_rounding_at_most(wire: str, size: float) -> None:
    random = torch.Generator().manual_seed(0)
    meant = [size * (1 + torch.rand(200, generator=random)) for _ in range(300)]
    total, plain, want = (torch.zeros(200, dtype=torch.float64) for _ in range(3))
    left: State = {}
    for number, values in enumerate(meant):
        sent, left = rounded({"w": values}, left, wire, "test")
        assert sent["w"].dtype == TYPES[wire]
        total += sent["w"].double()
        plain += values.to(TYPES[wire]).double()
        want += values.double()
        one = 2.1 * size * torch.finfo(TYPES[wire]).eps / 2  # half of the last digit of a number below 2 * size
        drift = (number + 1) * 2 * size * torch.finfo(torch.float32).eps
        assert float((total - want).abs().max()) <= one + drift
    assert float((plain - want).abs().max()) > 4 * one, "without feedback the errors pile up"


@pytest.mark.parametrize("wire", TYPES)
def test_changes_too_small_for_16_bits_wait_until_they_are_not(wire: str) -> None:
    """The same step 500 times, each far below the last digit of the weights that are sent down."""
    study = paper_study("fedavg", wire=wire)
    server, method = server_of(study), create_method(study)
    server.models["global"] = {"w": torch.full((5,), 1.5)}
    for _ in range(500):
        heard, _ = going_down(server, method, SITES)
        server.models["global"] = {"w": heard["amber"]["global"]["w"] + 2e-5}
    assert torch.finfo(TYPES[wire]).eps > 20 * 2e-5
    heard, _ = going_down(server, method, SITES)
    assert float((heard["amber"]["global"]["w"] - 1.51).abs().max()) <= 1.05 * torch.finfo(TYPES[wire]).eps
    assert heard["amber"]["global"]["w"] is heard["birch"]["global"]["w"], "a shared model is held once"


@pytest.mark.parametrize("wire", TYPES)
def test_a_variance_that_falls_is_never_negative_at_the_receiver(wire: str) -> None:
    random = torch.Generator().manual_seed(1)
    before = torch.rand(2000, generator=random) ** 6
    left = {"n.running_var": 1e-3 * (torch.rand(2000, generator=random) - 0.5)}
    for now in (torch.zeros(2000), 1e-5 * before, before * 0.999):
        sent, left = rounded({"n.running_var": now - before}, left, wire, "test", {"n.running_var": -before})
        before = before + sent["n.running_var"].float()
        assert float(before.min()) >= 0


def test_numbers_beyond_fp16_are_refused_by_name() -> None:
    with pytest.raises(FedSuperError, match=r"amber: entry w reaches 7e\+04, which fp16 cannot hold"):
        rounded({"w": torch.tensor([7e4])}, {}, "fp16", "amber")
    assert rounded({"w": torch.tensor([7e4])}, {}, "bf16", "amber")[0]["w"].isfinite().all()


def test_in_32_bits_everything_is_the_very_same_tensor() -> None:
    study = paper_study("fedsm")
    server, method = server_of(study), create_method(study)
    heard, packed = going_down(server, method, SITES)
    assert heard is packed and heard["amber"]["global"] is server.models["global"] and not server.carry


def test_what_is_no_trained_model_keeps_its_32_bits() -> None:
    for method_name, kept in (("scaffold", "control"), ("fedsm", "selector")):
        study = paper_study(method_name, wire="fp16")
        _, packed = going_down(server_of(study), create_method(study), SITES)
        types = {name: {tensor.dtype for tensor in state.values() if tensor.is_floating_point()}
                 for name, state in packed["amber"].items()}
        assert types["global"] == {torch.float16} and types[kept] == {torch.float32}


# --- the door and the outlet -----------------------------------------------------------------------------------------


def answer(study: Study, kind: torch.dtype) -> tuple[Message, Message, dict[str, Any], Models]:
    """A question, an answer whose changes are of `kind`, what is declared, and what the site holds."""
    server, method = server_of(study), create_method(study)
    heard, packed = going_down(server, method, SITES)
    info = {"study": study.to_json(), "label": 0, "sites": SITES, "round": 0, "phase": "training", "accepted": 0,
            "task": TASK.to_json()}
    changes = {name: {entry: torch.full_like(tensor, 1e-3).to(kind) if tensor.is_floating_point() else tensor
                      for entry, tensor in state.items()} for name, state in heard["amber"].items()}
    declared = declared_models(TRAIN, method, server, "amber", heard["amber"])
    reply = Message(changes, {"round": 0, "samples": 10, "metrics": {}, "releases": 0})
    return Message(packed["amber"], info), reply, declared, heard["amber"]


def test_door_and_outlet_take_exactly_the_declared_type() -> None:
    study = paper_study("fedavg", wire="fp16")
    for kind in (torch.float16, torch.bfloat16, torch.float32):
        question, reply, declared, heard = answer(study, kind)
        if kind == torch.float16:
            check_release("amber", TRAIN, question, reply)
            found = check_models(restored(reply.models, declared, heard, "fp16", "amber"), declared, "amber")
            for entry, tensor in found["global"].items():
                change = reply.models["global"][entry]
                is_change = change.is_floating_point()
                assert torch.equal(tensor, heard["global"][entry] + change.float() if is_change else change)
            continue
        with pytest.raises(FedSuperError, match=r"expected .* torch\.float16"):
            restored(reply.models, declared, heard, "fp16", "amber")
        with pytest.raises(FedSuperError, match="stays here"):
            check_release("amber", TRAIN, question, reply)
    question, reply, declared, heard = answer(paper_study("fedavg"), torch.float16)
    with pytest.raises(FedSuperError, match="stays here"):
        check_release("amber", TRAIN, question, reply)


# --- a whole study ---------------------------------------------------------------------------------------------------


class Counted(LocalExchange):
    """Weighs what goes down and up in rounds."""

    weights: list[tuple[int, int]] = []

    def __call__(self, task: str, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | SiteFailure]:
        replies = super().__call__(task, messages, timeout)
        if task == TRAIN:
            self.weights.extend((weight(messages[site]), weight(reply)) for site, reply in replies.items()
                                if isinstance(reply, Message))
        return replies


def weight(message: Message) -> int:
    return sum(tensor.nbytes for state in message.models.values() for tensor in state.values())


def test_a_study_in_16_bits_sends_half_and_goes_on_with_the_same_bits(
    tiny_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {"method": "fedsm", "rounds": 2, "image_size": 32, "model": {"channels": [2, 4], "norm": "batch"},
             "selector": {"kind": "statistics"}, "wire": "fp16"}
    monkeypatch.setattr("fedsuper.engines.in_process.LocalExchange", Counted)
    monkeypatch.setattr(Counted, "weights", [])
    whole = run_local(parse_study({**short, "rounds": 3}), tiny_root, tmp_path / "whole", Silent())
    state = whole.personal[whole.sites[0]]
    floats = sum(tensor.numel() for tensor in state.values() if tensor.is_floating_point())
    counters = sum(tensor.nbytes for tensor in state.values() if not tensor.is_floating_point())
    assert counters and set(Counted.weights) == {(2 * (2 * floats + counters),) * 2}, "two models, two bytes a number"
    assert bits(run_local(parse_study(short), tiny_root, tmp_path / "parts", Silent())) != bits(whole)
    server = load_latest(tmp_path / "parts" / "server", parse_study(short))
    assert server is not None and {"training:global", f"training:personal/{whole.sites[0]}"} < set(server.carry)
    kept, _ = load_models(tmp_path / "parts" / "sites" / whole.sites[0] / "state-00002.safetensors")
    assert any(tensor.abs().max() > 0 for tensor in kept["carry/personal"].values())
    resumed = run_local(parse_study({**short, "rounds": 3}), tiny_root, tmp_path / "parts", Silent(), resume=True)
    assert bits(resumed) == bits(whole)
    heard = widened({"m": state}, "fp16")["m"]
    assert all(torch.equal(tensor, tensor.half().float()) for tensor in heard.values() if tensor.is_floating_point())
