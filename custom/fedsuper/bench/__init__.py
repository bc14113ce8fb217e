"""Benchmarks: each is a module with `run(out) -> dict` that measures something the project promises."""

from __future__ import annotations

import importlib
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write_json

BENCHMARKS: dict[str, str] = {
    "augment": "fedsuper.bench.augment:run",
    "compare": "fedsuper.bench.two_workers:run",
    "data": "fedsuper.bench.sample_speed:run",
    "predict": "fedsuper.bench.predict:run",
    "round": "fedsuper.bench.whole_round:run",
    "routing": "fedsuper.bench.routing:run",
    "server": "fedsuper.bench.server_aggregation:run",
    "startup": "fedsuper.bench.start_up:run",
    "train": "fedsuper.bench.epoch_cost:run",
    "wire": "fedsuper.bench.wire_bytes:run",
}


def run_benchmarks(names: list[str], out: Path) -> int:
    """Run the named benchmarks (default: all), write `OUT/<name>.json` each; 1 if one misses what it promises.

    A result may hold `promises`, a mapping from what is promised to whether it was kept.
    """
    for name in names:
        if name not in BENCHMARKS:
            raise FedSuperError(f"bench '{name}' is not known; there are: {', '.join(BENCHMARKS)}")
    missed = 0
    for name in names or BENCHMARKS:
        module, _, function = BENCHMARKS[name].partition(":")
        result: dict[str, Any] = getattr(importlib.import_module(module), function)(Path(out))
        result["machine"] = _machine()
        atomic_write_json(Path(out) / f"{name}.json", result)
        print(table(name, result), flush=True)
        missed += sum(not kept for kept in result.get("promises", {}).values())
    return 1 if missed else 0


def measures(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Name and text of every number; what is nested has its path for a name."""
    if isinstance(value, Mapping):
        for inner, below in value.items():
            yield from measures(f"{key}, {inner}", below)
    else:
        yield key.replace("_", " "), f"{value:.3g}" if isinstance(value, float) else str(value)


def table(name: str, result: Mapping[str, Any]) -> str:
    """A result for a terminal: its numbers under each other, then what was promised."""
    told = [pair for key, value in result.items() if key != "promises" for pair in measures(key, value)]
    width = max(len(key) for key, _ in told)
    lines = [f"{key:<{width}}  {text}" for key, text in told]
    promises = [f"{'kept' if kept else 'MISSED'}: {text}" for text, kept in result.get("promises", {}).items()]
    return "\n".join(f"{name}: {line}" for line in [*lines, *promises])


def _machine() -> str:
    """What the numbers were measured on."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
