"""`python -m fedsuper.bench.performance_page DIR PAGE.md`: the results of `fedsuper bench --out DIR` as a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedsuper.bench import BENCHMARKS, measures
from fedsuper.files import atomic_write_text

HEAD = """# Performance

Made by `make bench` from the JSON files of `fedsuper bench`; every ratio is against a baseline measured in the same
run. A promise that is missed says so.
"""


def page(folder: Path) -> str:
    """Every benchmark that has a result in `folder`."""
    found = {name: folder / f"{name}.json" for name in BENCHMARKS}
    results = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in found.items() if path.exists()}
    return "\n".join([HEAD, *(line for name, result in results.items() for line in section(name, result))])


def section(name: str, result: Mapping[str, Any]) -> Iterator[str]:
    """One benchmark: what was measured, its numbers, and what it promised."""
    machine = result.get("machine")
    yield f"## {name}\n\n{result.get('setting', '')}" + (f" ({machine})" if machine else "") + "\n"
    yield "| measure | value |\n|---|---|"
    for key, value in result.items():
        if key not in ("setting", "promises", "machine"):
            yield from (f"| {label} | {text} |" for label, text in measures(key, value))
    yield ""
    for promise, kept in result.get("promises", {}).items():
        yield f"- {'kept' if kept else '**missed**'}: {promise}"
    yield ""


if __name__ == "__main__":
    atomic_write_text(Path(sys.argv[2]), page(Path(sys.argv[1])))
