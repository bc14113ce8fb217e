"""Reading what runs left on disk: one clear line where a file is missing, torn or of another kind."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from fedsuper.errors import FedSuperError


def read_json_file(path: Path) -> dict[str, Any]:
    """The JSON object in `path`."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FedSuperError(f"{path}: cannot be read ({error.strerror}); give the folder of a finished run") from None
    except (ValueError, RecursionError) as error:
        line = " ".join(str(error).split())[:120]
        raise FedSuperError(f"{path}: is torn or not JSON ({line}); write it again with the run that made it") from None
    if not isinstance(value, dict):
        raise FedSuperError(f"{path}: holds a JSON {type(value).__name__}, expected an object; write it again")
    return value


def read_csv_file(path: Path, needed: tuple[str, ...]) -> list[dict[str, str]]:
    """The rows of `path`, which must have the columns `needed`."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file, restval=None, strict=True)
            found = list(rows)
            missing = [name for name in needed if name not in (rows.fieldnames or [])]
    except OSError as error:
        raise FedSuperError(f"{path}: cannot be read ({error.strerror}); give the folder of a finished run") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise FedSuperError(f"{path}: is torn or not a table ({error}); write it again with its run") from None
    if missing:
        raise FedSuperError(f"{path}: has no column {', '.join(missing)}; write it again with this FedSuper")
    torn = next((number for number, row in enumerate(found, start=2) if None in row.values() or None in row), None)
    if torn is not None:
        raise FedSuperError(f"{path}: row {torn} is torn; write the file again with the run that made it")
    return found
