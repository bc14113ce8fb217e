"""The command line keeps its contract: names of commands and options, exit codes, one line per mistake."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fedsuper.cli import build_parser, main

CONTRACT = """
synth --task retina --out R --sites 3 --images 9 --size 64 --seed 1
import refuge RAW --out R/site
doctor R --json
run S.yaml --data R --out O --engine sim --threads 2 --gpus 0,1 --resume --set a.b=c --set d=e
compare --data R --methods centralized,local --out O --config S.yaml --seeds 0,1,2 --leave-out all --set a=b
predict M one.png two.nii.gz --out D --mode site:A --gamma 0.5
evaluate M --data R --out D --split test --mode route
report A B --out report.html --figures D
export M --to onnx --out D
job S.yaml --out D
bench routing --out D
methods
"""


@pytest.mark.parametrize("line", CONTRACT.strip().splitlines())
def test_every_documented_call_is_understood(line: str) -> None:
    assert callable(build_parser().parse_args(line.split()).command)


def test_methods_lists_every_method(capsys) -> None:
    from fedsuper.methods import METHODS

    assert main(["methods"]) == 0
    told = capsys.readouterr().out
    assert all(re.search(rf"^{name}$", told, re.M) for name in METHODS)


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "--data", "nowhere", "--out", "o", "--methods", "fedavg,magic"],
        ["compare", "--data", "nowhere", "--out", "o", "--seeds", "one"],
        ["compare", "--data", "nowhere", "--out", "o"],
        ["run", "absent.yaml", "--data", "nowhere", "--out", "o"],
        ["predict", "nowhere", "x.png", "--out", "o"],
        ["evaluate", "nowhere", "--data", "nowhere", "--out", "o"],
        ["report", "nowhere", "--out", "o.html"],
        ["doctor", "nowhere"],
        ["import", "no-such-set", "nowhere", "--out", "o/site"],
        ["synth", "--task", "retina", "--out", "o", "--sites", "0"],
        ["export", "nowhere", "--to", "pt2", "--out", "o"],
        ["job", "absent.yaml", "--out", "o"],
        ["bench", "no-such-bench", "--out", "o"],
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(arguments: list[str], tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) in (1, 2)
    captured = capsys.readouterr()
    lines = (captured.err + captured.out).strip().splitlines()
    assert lines and "Traceback" not in captured.err
    assert lines[-1].startswith("fedsuper: ") or arguments[0] == "doctor"
    assert not list(tmp_path.iterdir()), "nothing half-written"
