"""One command trains every method of both papers and prints one table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from fedsuper.cli import main
from fedsuper.methods import METHODS

pytestmark = pytest.mark.integration

SMALL = {
    "rounds": 1,
    "image_size": 32,
    "model": {"channels": [4, 8], "residual_units": 0, "norm": "batch"},
    "optimizer": {"lr": 0.01},
    "fedsm-extra": {"extra_rounds": 1},
    "fedsm-ensemble": {"extra_rounds": 1},
    "ft": {"epochs": 1},
    "fedrep": {"head_epochs": 1},
}


def test_every_method_is_in_one_table_and_one_report(tiny_root: Path, tmp_path: Path, capsys) -> None:
    config, out = tmp_path / "study.yaml", tmp_path / "compared"
    config.write_text(yaml.safe_dump(SMALL))
    command = ["compare", "--data", str(tiny_root), "--config", str(config), "--out", str(out)]
    assert main([*command, "--methods", "all"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in table if line and line.split()[0] in METHODS] == list(METHODS)
    metrics = json.loads((out / "metrics.json").read_text())["methods"]
    images = {row["n"] for row in metrics.values()}
    assert list(metrics) == list(METHODS) and len(images) == 1  # all were scored on the same images
    assert len({json.dumps(row["per_site"]) for row in metrics.values()}) > len(METHODS) // 2  # and they differ
    page = tmp_path / "report.html"
    assert main(["report", str(out), "--out", str(page)]) == 0
    text = page.read_text()
    assert all(name in text for name in ("FedSM-extra", "Per-FedAvg", "IOP-FL", "Scaffold"))
