"""Small text files of a data root (JSON and CSV), read with one-line errors."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from fedsuper.data.problems import DataProblem, some_of

MAX_TEXT_BYTES = 64 * 2**20


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, with or without a byte-order mark."""
    try:
        if not path.is_file() and path.exists():
            raise DataProblem(path, "is not a file", "put a text file there")  # a pipe would be read for ever
        with path.open("rb") as file:
            content = file.read(MAX_TEXT_BYTES + 1)  # it may grow meanwhile
        if len(content) > MAX_TEXT_BYTES:
            raise DataProblem(path, f"is larger than {MAX_TEXT_BYTES // 2**20} MB", "check that this is the right file")
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise DataProblem(path, "does not exist", "create it (see docs/how-to/bring-your-data.md)") from None
    except UnicodeDecodeError:
        raise DataProblem(path, "is not UTF-8 text", "save it again with encoding UTF-8") from None
    except OSError as error:
        raise DataProblem(path, f"cannot be read ({error.strerror})", "check the file and its permissions") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    repeated = sorted({key for key in keys if keys.count(key) > 1})
    if repeated:
        raise ValueError(f"the key {some_of(repeated)} is there twice")
    return dict(pairs)


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; a key given twice is an error, because one of the two would be lost in silence."""
    try:
        value = json.loads(read_text(path), object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise DataProblem(path, f"is not valid JSON ({error})", "fix the file") from None
    if not isinstance(value, dict):
        raise DataProblem(path, f"holds a JSON {type(value).__name__}, an object was expected", "fix the file")
    return value


def read_table(path: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """The rows of a CSV file that has at least `columns`; comma or semicolon (what spreadsheets write in Europe)."""
    lines = read_text(path).splitlines()
    header = lines[0] if lines else ""
    rows = csv.DictReader(lines, delimiter=";" if ";" in header and "," not in header else ",", strict=True)
    try:
        names = [name.strip() for name in rows.fieldnames or []]
        missing = [column for column in columns if column not in names]
        if missing:
            fix = f"start it with the line {','.join(columns)}"
            raise DataProblem(path, f"has no column {some_of(missing)} in its first line", fix)
        rows.fieldnames = names
        table = [{column: (row[column] or "").strip() for column in columns} for row in rows]
    except csv.Error as error:
        raise DataProblem(path, f"line {rows.line_num} is not valid CSV ({error})", "fix that line") from None
    return table
