"""Which device computes is said, never guessed; and copies to a GPU run ahead of the work."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from fedsuper.config import ComputeConfig
from fedsuper.errors import FedSuperError
from fedsuper.train import device as module
from fedsuper.train.device import Compute, choose_device


@pytest.fixture(autouse=True)
def no_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDSUPER_DEVICE", raising=False)


def pretend_gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


@pytest.mark.parametrize(("gpus", "wanted", "found"), [
    (0, "auto", "cpu"), (2, "auto", "cuda"), (2, "cpu", "cpu"), (2, "cuda:1", "cuda:1"), (1, "cuda", "cuda"),
])
def test_the_device_is_the_one_asked_for(gpus: int, wanted: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_gpus(monkeypatch, gpus)
    assert choose_device(ComputeConfig(device=wanted)) == torch.device(found)


@pytest.mark.parametrize(("gpus", "wanted"), [(0, "cuda"), (1, "cuda:1"), (0, "gpu"), (0, "")])
def test_a_device_that_is_not_there_is_an_error(gpus: int, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_gpus(monkeypatch, gpus)
    with pytest.raises(FedSuperError, match="compute.device") as caught:
        choose_device(ComputeConfig(device=wanted))
    assert "\n" not in str(caught.value)


def test_the_sites_own_wish_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_gpus(monkeypatch, 2)
    monkeypatch.setenv("FEDSUPER_DEVICE", "cuda:1")
    assert choose_device(ComputeConfig(device="cpu")) == torch.device("cuda:1")


def test_the_thread_count_is_the_studys() -> None:
    before = torch.get_num_threads()
    try:
        Compute.from_config(ComputeConfig(device="cpu", torch_threads=2))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("amp", "dtype"), [("off", torch.float32), ("bf16", torch.bfloat16)])
def test_precision_is_the_studys(amp: str, dtype: torch.dtype) -> None:
    with Compute(torch.device("cpu"), amp=amp).autocast():
        assert nn.Conv2d(1, 1, 1)(torch.zeros(1, 1, 2, 2)).dtype == dtype


@pytest.mark.parametrize("raw", [False, "off"])
def test_off_may_be_said_as_yaml_reads_it(raw: object) -> None:
    config = ComputeConfig.model_validate({"amp": raw, "compile": raw})
    assert (config.amp, config.compile) == ("off", "off")
    assert ComputeConfig.model_validate({"compile": True}).compile == "on"


def test_deterministic_is_switched_on_and_off_again() -> None:
    try:
        Compute.from_config(ComputeConfig(device="cpu", deterministic=True))
        assert torch.are_deterministic_algorithms_enabled() and not torch.backends.cudnn.benchmark
    finally:
        Compute.from_config(ComputeConfig(device="cpu"))
    assert not torch.are_deterministic_algorithms_enabled() and torch.backends.cudnn.benchmark


def test_a_compiled_net_keeps_its_names_and_gives_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With dynamo's own backend `eager`: the capture is torch's, the generated code is not this product's to test."""
    asked: list[dict[str, object]] = []
    compile_ = torch.compile

    def spy(function: object, **options: object) -> object:
        asked.append(dict(options))
        return compile_(function, backend="eager", dynamic=False)

    monkeypatch.setattr(torch, "compile", spy)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU())
    plain, x = {name: weight.clone() for name, weight in net.state_dict().items()}, torch.randn(2, 1, 6, 6)
    with torch.no_grad():
        expected = net(x)
        placed = Compute(torch.device("cpu"), compile="graphs").place_net(net)
        assert torch.equal(placed(x), expected)
    assert asked == [{"dynamic": False, "mode": "reduce-overhead"}]
    assert list(placed.state_dict()) == list(plain)


def test_nets_and_batches_share_a_memory_format() -> None:
    compute = Compute(torch.device("cpu"), channels_last=True)
    net = compute.place_net(nn.Conv2d(4, 6, 3))
    assert isinstance(net.weight, torch.Tensor) and net.weight.is_contiguous(memory_format=torch.channels_last)
    assert compute.place(torch.zeros(2, 4, 8, 8)).is_contiguous(memory_format=torch.channels_last)
    assert compute.place(torch.zeros(2, 4)).is_contiguous()


def test_on_the_processor_parts_come_as_they_are() -> None:
    parts = [(torch.rand(2), torch.rand(3)) for _ in range(3)]
    found = list(Compute(torch.device("cpu")).ahead(parts))
    assert all(a is c and b is d for (a, b), (c, d) in zip(parts, found, strict=True))


def test_on_a_gpu_the_next_batch_is_copied_while_one_is_worked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of events, with recorders in the place of CUDA's streams."""
    events: list[str] = []

    class Current:
        def wait_stream(self, stream: object) -> None:
            events.append("wait for the copy")

    @contextlib.contextmanager
    def inside(stream: object) -> Iterator[None]:
        events.append("begin copy")
        yield
        events.append("copy is under way")

    class Recorded(torch.Tensor):
        def record_stream(self, stream: object) -> None:
            events.append("kept alive for the work")

    monkeypatch.setattr(module, "_side_stream", lambda device: object())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Current())
    monkeypatch.setattr(torch.cuda, "stream", inside)
    monkeypatch.setattr(Compute, "move", lambda self, batch: batch.as_subclass(Recorded))
    parts = [(torch.full((1,), float(n)), torch.zeros(1)) for n in range(3)]
    for images, _ in Compute(torch.device("cuda")).ahead(iter(parts)):
        events.append(f"work on {int(images)}")
    copy, hand_over = ["begin copy", "copy is under way"], ["wait for the copy"] + 2 * ["kept alive for the work"]
    assert events == [*copy, *hand_over, *copy, "work on 0", *hand_over, *copy, "work on 1", *hand_over, "work on 2"]


def test_batches_for_a_gpu_leave_from_pinned_memory_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, object]] = []

    class Host:
        device = torch.device("cpu")

        def pin_memory(self) -> Host:
            calls.append(("pin", None))
            return self

        def to(self, device: torch.device, non_blocking: bool = False) -> Host:
            calls.append((str(device), non_blocking))
            return self

    Compute(torch.device("cuda:0")).move(Host())  # type: ignore[arg-type]
    assert calls == [("pin", None), ("cuda:0", True)]
