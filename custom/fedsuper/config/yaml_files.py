"""YAML that somebody wrote by hand, read with bounds: nothing in it costs more than its size, nothing is lost unheard.

Refused in one line: what is no file (a pipe would be waited for), what is far larger than any study, aliases (a few
lines of them stand for gigabytes), brackets in brackets without end, and a key given twice, of which one would be lost.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from fedsuper.errors import FedSuperError

LARGEST = 256 * 1024  # bytes
DEEPEST = 20


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, for which a key may be there once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        found: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in found:
                raise yaml.YAMLError(f"the key '{key}' is there twice, line {key_node.start_mark.line + 1}")
            if isinstance(key, Hashable):
                found.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path, what: str) -> Any:
    """What the file holds, None where it is empty; `what` says in errors which file this is."""
    try:
        if path.exists() and not path.is_file():
            raise FedSuperError(f"{path}: {what} is not a file; give the path of a YAML file")
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise FedSuperError(f"{path}: cannot read {what} ({error.strerror}); give the path of a YAML file") from None
    if len(data) > LARGEST:
        raise FedSuperError(f"{path}: {what} is larger than {LARGEST // 1024} kB; check that this is the right file")
    try:
        return parse_yaml(data.decode("utf-8"))
    except (yaml.YAMLError, ValueError) as error:  # a number of thousands of digits is a ValueError
        raise FedSuperError(f"{path}: not a YAML file ({' '.join(str(error).split())[:300]})") from None


def parse_yaml(text: str) -> Any:
    """A YAML text; raises yaml.YAMLError or ValueError for what is none or goes beyond the bounds."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError(f"aliases (*{event.anchor}) are not read; write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise yaml.YAMLError(f"more than {DEEPEST} levels of brackets")
    return yaml.load(text, Loader=_Loader)
