"""The small study as a file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fedsuper.config import Study


@pytest.fixture
def study_file(tmp_path: Path, tiny_study: Study) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(tiny_study.to_json()))
    return path
