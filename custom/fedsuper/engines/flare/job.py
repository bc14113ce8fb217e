"""Job folders on disk: what `nvflare job submit` and `nvflare simulator` take."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedsuper.config import Study
from fedsuper.engines.flare.recipe import FedSuperRecipe, SuperModelJob
from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write_text, read_json

HOUSES = ("fedsuper.", "nvflare.")


def write_job(study: Study, out: Path, custom: bool = True, resume: bool = False) -> None:
    """Write the training job of a study to `out`; the same study gives the same bytes."""
    write_recipe(FedSuperRecipe(study, resume), out, custom)


def write_recipe(recipe: SuperModelJob, out: Path, custom: bool = True) -> None:
    """Write any of FedSuper's recipes as a job folder; `custom=False` for machines that have an allow-list for it."""
    if Path(out).is_dir() and any(Path(out).iterdir()) and not (Path(out) / "meta.json").exists():
        raise FedSuperError(f"--out {out}: already holds something that is no job; name a new or an empty folder")
    if custom:
        recipe.mark_as_code()
    with tempfile.TemporaryDirectory(prefix="fedsuper-") as temporary:
        recipe.export(temporary)
        job = Path(temporary) / recipe.name
        for path in sorted(path for path in job.rglob("*") if path.is_file()):
            text = path.read_text(encoding="utf-8")
            readable = layout(json.loads(text)) + "\n" if path.suffix == ".json" else text
            atomic_write_text(Path(out) / path.relative_to(job), readable)


def may_change_messages(job: Path) -> bool:
    """Whether a job folder names filters, or classes that are neither FedSuper's nor NVFlare's; or names nothing."""
    files = Path(job).glob("*/config/config_fed_*.json")
    told = [read_json(path, "write the job anew with `fedsuper job`") for path in files]
    filters = any(one.get(kind) for one in told for kind in ("task_data_filters", "task_result_filters"))
    return not told or filters or not all(path.startswith(HOUSES) for path in _classes(told))


def _classes(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from [str(value["path"])] if "path" in value else []
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _classes(inner)


def layout(value: Any, indent: str = "") -> str:
    """JSON for reading: what holds no object is one line."""
    deeper = indent + "  "
    if isinstance(value, dict) and value and (not indent or len(json.dumps(value)) > 100 or _nested(value)):
        lines = [f"{deeper}{json.dumps(key)}: {layout(inner, deeper)}" for key, inner in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
        return "[\n" + ",\n".join(deeper + layout(inner, deeper) for inner in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


def _nested(value: dict[str, Any]) -> bool:
    return any(isinstance(inner, dict) and inner for inner in value.values())
