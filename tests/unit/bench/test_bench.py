"""Benchmarks: known by name, results on disk, a broken promise is an exit code."""

import json

import pytest
import torch

from fedsuper import bench
from fedsuper.bench import routing
from fedsuper.bench.peak_memory import peak_megabytes
from fedsuper.errors import FedSuperError


def test_unknown_benchmark_is_one_line(tmp_path):
    with pytest.raises(FedSuperError, match="there are: .*routing"):
        bench.run_benchmarks(["speed"], tmp_path)


def test_a_broken_promise_is_told(tmp_path, monkeypatch, capsys):
    for kept, code in ((True, 0), (False, 1)):
        monkeypatch.setattr(routing, "run", lambda out, kept=kept: {"size": 3, "promises": {"small": kept}})
        assert bench.run_benchmarks(["routing"], tmp_path) == code
        assert ("MISSED" in capsys.readouterr().out) == (not kept)
        assert json.loads((tmp_path / "routing.json").read_text())["size"] == 3


@pytest.mark.slow
def test_routing_measures_both_in_one_run(tmp_path, monkeypatch):
    monkeypatch.setattr(routing, "SIZE", 32)
    monkeypatch.setattr(routing, "ROUNDS", 1)
    monkeypatch.setattr(routing, "STEPS", 2)
    monkeypatch.setattr(routing, "memory_per_expert", lambda: 6.6)
    threads = torch.get_num_threads()
    result = routing.run(tmp_path)
    torch.set_num_threads(threads)
    assert result["without_residual_units"]["forwards_per_step"] > 1
    assert result["forwards_per_step"] > 1 and result["expert_megabytes"] == pytest.approx(6.5, abs=0.1)
    assert result["megabytes_per_expert_beyond_weights"] == pytest.approx(0.1, abs=0.1)
    assert len(result["promises"]) == 2


def test_peak_memory_is_this_process_own():
    assert 10 < peak_megabytes() < 100_000
