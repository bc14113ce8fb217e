"""What the server does with a round, counted instead of timed: reads of uploads, scratch, copies for a checkpoint."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fedsuper.bench import resting_models, server_aggregation
from fedsuper.bench.peak_memory import MEGABYTE, scratch_megabytes
from fedsuper.core.state import BLOCK
from fedsuper.methods import create_method
from fedsuper.train.checkpoint import load_models, save_models


class Reads(TorchDispatchMode):
    """Counts how many numbers the operations read of some tensors, and how many each makes at once at the most."""

    def __init__(self, watched: set[int]) -> None:
        super().__init__()
        self.watched = watched
        self.read: Counter[str] = Counter()
        self.widest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if "view" not in name and name not in ("slice", "detach", "alias"):
            for value in args:
                if isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() in self.watched:
                    self.read[name] += value.numel()
            if isinstance(result, torch.Tensor) and result.dtype == torch.float64:
                self.widest = max(self.widest, result.numel())
        return result


def test_an_aggregation_reads_every_upload_at_most_twice() -> None:
    server, updates = server_aggregation.round_of({"channels": [8, 96, 128]}, 5)
    uploads = [tensor for update in updates.values() for state in update.models.values() for tensor in state.values()]
    reads = Reads({tensor.untyped_storage().data_ptr() for tensor in uploads})
    method = create_method(server.study)
    with reads:
        method.aggregate(server, updates)
    size = sum(tensor.numel() for tensor in uploads)
    assert max(tensor.numel() for tensor in uploads) > BLOCK, "the net is large enough to be worked on in blocks"
    assert reads.widest <= BLOCK, "no float64 copy of a model"
    # A sum for both roles, and the pull of the personalized ones; what the sum shows to be finite is not looked at.
    assert sum(reads.read.values()) <= 1.5 * size


def test_the_benchmark_measures_what_it_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_aggregation, "SITES", (2, 3))
    monkeypatch.setattr(server_aggregation, "MANY", 8)
    monkeypatch.setattr(server_aggregation, "PAPER", server_aggregation.SMALL)
    monkeypatch.setattr(resting_models, "LARGE_SITES", 8)
    result = server_aggregation.run(tmp_path)
    assert set(result["sites"]) == {"2", "3", "8 (small net)"} and len(result["promises"]) == 5
    assert result["promises"]["a checkpoint writes the models that are new and no other"]
    assert result["sites"]["3"]["megabytes_received"] > result["sites"]["2"]["megabytes_received"] > 0


def test_scratch_is_seen() -> None:
    megabytes = 200
    found = scratch_megabytes(lambda: bytearray(b"x") * int(megabytes * MEGABYTE) and None, 0.0)
    assert found == pytest.approx(megabytes, rel=0.2)


def test_a_checkpoint_copies_only_what_shares_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = torch.randn(50), torch.randn(50)
    models = {"a": {"w": one}, "b": {"w": one}, "c": {"w": other}, "d": {"w": other[:20]}}
    copied: list[int] = []
    really = torch.Tensor.clone
    monkeypatch.setattr(torch.Tensor, "clone", lambda self: copied.append(self.numel()) or really(self))
    save_models(tmp_path / "x.safetensors", models)
    assert copied == [50, 20]
    found, _ = load_models(tmp_path / "x.safetensors")
    assert all(torch.equal(found[role]["w"], state["w"]) for role, state in models.items())
