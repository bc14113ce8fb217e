"""Reading a study: every key is checked before any work starts, a method's knobs by the method itself.

Unknown keys are errors, because a misspelled knob that is silently ignored is an experiment that was never run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from fedsuper.config.study import Study
from fedsuper.config.yaml_files import parse_yaml, read_yaml
from fedsuper.errors import FedSuperError
from fedsuper.inference.modes import check_knobs
from fedsuper.methods import METHODS, method_knobs
from fedsuper.schema import first_problem


def parse_study(raw: dict[str, Any], source: str = "study") -> Study:
    """Validate a plain mapping; every problem becomes one line that names the key."""
    if not isinstance(raw, dict):
        raise FedSuperError(
            f"{source}: expected a mapping of keys, got {type(raw).__name__}; see docs/reference/study.md"
        )
    if "knobs" in raw:
        raise FedSuperError(f"{source}: unknown key 'knobs'; put a method's knobs under the method's own name")
    shared = {key: value for key, value in raw.items() if key not in METHODS}
    knobs = {key: value if value is not None else {} for key, value in raw.items() if key in METHODS}
    method = shared.get("method", "fedsm")
    if not isinstance(method, str) or method not in METHODS:
        raise FedSuperError(f"{source}: method is '{str(method)[:80]}'; known methods: {', '.join(sorted(METHODS))}")
    try:
        # Without defaults: a study is the same, and resumes the same state, whether it spells them out or not.
        checked = {
            name: method_knobs(name).model_validate(value).model_dump(mode="json", by_alias=True, exclude_defaults=True)
            for name, value in knobs.items()
        }
        named = {name: value for name, value in checked.items() if value}
        study = Study.model_validate({**shared, "knobs": named})
        return study.model_copy(update={"modes": check_knobs(study.modes)}) if study.modes else study
    except ValidationError as error:
        raise FedSuperError(f"{source}: {first_problem(error)}") from None


def read_study(path: Path | None, overrides: list[str] | None = None, base: dict[str, Any] | None = None) -> Study:
    """Read a study file (`None`: the defaults, or `base`), apply `a.b=c` overrides, validate."""
    raw: Any = dict(base or {})
    source = "study"
    if path is not None:
        source = str(path)
        raw = read_yaml(Path(path), "the study") or {}
    for override in overrides or []:
        raw = _apply_override(raw, override)
    return parse_study(raw, source)


def change_study(study: Study, overrides: Sequence[str]) -> Study:
    """The same study with `a.b=c` overrides."""
    return read_study(None, list(overrides), base=study.to_json())


def change_method(study: Study, method: str) -> Study:
    """The same study for another method; each method keeps reading its own knobs."""
    return parse_study({**study.to_json(), "method": method})


def _apply_override(raw: Any, override: str) -> Any:
    path, separator, text = override.partition("=")
    keys = path.split(".")
    if not separator or not all(keys) or not isinstance(raw, dict):
        raise FedSuperError(f"{override}: expected key=value, for example optimizer.lr=0.002")
    try:
        value = parse_yaml(text)
    except (yaml.YAMLError, ValueError):
        value = text
    root = dict(raw)
    node = root
    for key in keys[:-1]:
        child = node.get(key)
        if child is not None and not isinstance(child, dict):
            raise FedSuperError(f"{override}: '{key}' is a single value, not a section")
        node[key] = dict(child or {})
        node = node[key]
    node[keys[-1]] = value
    return root
