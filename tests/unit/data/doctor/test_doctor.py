"""The doctor's report: levels, counts, JSON, progress, processes and speed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from data_roots import disc_label, retina_root, write_picture

from fedsuper.data.doctor import examine as doctor
from fedsuper.data.doctor.findings import Diagnosis, Finding, SiteCount, to_json_text, to_text

CUSTOM = Path(__file__).parents[4] / "custom"


def test_a_clean_root_exits_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(retina_root(tmp_path), as_json=False) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0].split() == ["site", "images", "cases", "errors", "warnings"]
    assert shown.out.splitlines()[1].split() == ["a", "4", "4", "0", "0"]
    assert "nothing to fix" in shown.out and shown.err == ""  # no progress bar off a terminal


def test_warnings_alone_exit_0_and_errors_exit_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = retina_root(tmp_path)
    write_picture(root / "a" / "labels" / "eye0.png", np.zeros((32, 32), np.uint8))
    assert doctor.main(root, as_json=False) == 0
    assert "warning: is empty (background only)" in capsys.readouterr().out
    (root / "b" / "labels" / "eye0.png").unlink()
    assert doctor.main(root, as_json=False) == 1
    shown = capsys.readouterr().out
    assert "error: has no label\n    b/images/eye0.png\n  to fix: add eye0.png" in shown
    assert shown.index("error:") < shown.index("warning:")


def test_json_is_for_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = retina_root(tmp_path)
    (root / "b" / "images" / "eye0.png").write_bytes(b"torn")
    assert doctor.main(root, as_json=True) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["errors"] == 1 and report["warnings"] == 0
    assert report["sites"]["b"] == {"images": 4, "cases": 4, "errors": 1, "warnings": 0}
    (finding,) = report["findings"]
    assert set(finding) == {"level", "site", "file", "what", "fix"}
    assert (finding["level"], finding["site"], finding["file"]) == ("error", "b", "b/images/eye0.png")


def test_every_problem_is_found_not_only_the_first(tmp_path: Path) -> None:
    root = retina_root(tmp_path)
    (root / "a" / "images" / "eye0.png").write_bytes(b"torn")
    (root / "a" / "labels" / "eye1.png").unlink()
    write_picture(root / "a" / "labels" / "eye2.png", disc_label((32, 32)) * 9)
    shutil.copyfile(root / "a" / "images" / "eye3.png", root / "b" / "images" / "eye3.png")
    (root / "b" / "splits.json").write_text("{}")
    files = {finding.file for finding in doctor.examine(root).findings if finding.level == "error"}
    assert files == {
        "a/images/eye0.png",
        "a/images/eye1.png",
        "a/labels/eye2.png",
        "b/images/eye3.png",
        "b/splits.json",
    }


def test_copies_of_one_patient_are_a_warning(tmp_path: Path) -> None:
    root = retina_root(tmp_path, sites=("a",))
    shutil.copyfile(root / "a" / "images" / "eye0.png", root / "a" / "images" / "eye1.png")
    (root / "a" / "cases.csv").write_text("name,case\neye0,p\neye1,p\neye2,q\neye3,r\n")
    (finding,) = doctor.examine(root).findings
    assert finding.level == "warning" and "same pixels as eye0.png" in finding.what


def test_the_same_pixels_in_another_format_are_a_copy(tmp_path: Path) -> None:
    root = retina_root(tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    write_picture(root / "a" / "images" / "eye0.png", pixels)
    (root / "b" / "images" / "eye0.png").unlink()
    write_picture(root / "b" / "images" / "eye0.bmp", pixels)
    (finding,) = doctor.examine(root).findings
    assert (finding.level, finding.file) == ("error", "b/images/eye0.bmp")


def test_progress_counts_every_image(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    doctor.examine(retina_root(tmp_path), progress=lambda done, total: calls.append((done, total)))
    assert calls == [(n, 8) for n in range(1, 9)]


def test_a_terminal_gets_a_progress_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    doctor.main(tmp_path / "missing")
    assert sys.stderr.getvalue() == ""
    doctor.main(retina_root(tmp_path))
    assert "reading" in sys.stderr.getvalue() and "/8" in sys.stderr.getvalue()


def test_many_files_of_one_kind_are_grouped() -> None:
    findings = [Finding("error", "a", f"a/images/{n}.png", "is empty", "restore it") for n in range(30)]
    shown = to_text(Diagnosis("root", {"a": SiteCount(30, 30)}, findings))
    assert shown.count("error: is empty") == 1 and "and 22 more" in shown
    assert len(json.loads(to_json_text(Diagnosis("root", {}, findings)))["findings"]) == 30


def test_processes_say_the_same_as_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = retina_root(tmp_path, images=8)
    (root / "b" / "images" / "eye5.png").write_bytes(b"torn")
    write_picture(root / "a" / "labels" / "eye2.png", disc_label((32, 32)) * 9)
    alone = doctor.examine(root, workers=1)
    monkeypatch.setattr(doctor, "MANY_ITEMS", 1)
    together = doctor.examine(root, workers=2)
    assert together == alone and together.count("error") == 2


def test_a_script_that_cannot_be_imported_again_is_no_obstacle(tmp_path: Path) -> None:
    """Spawned workers import the caller's script; without a main guard they cannot, and the doctor goes on alone."""
    root = retina_root(tmp_path / "root")
    script = tmp_path / "script.py"
    script.write_text(
        "from pathlib import Path\nfrom fedsuper.data.doctor import examine as doctor\ndoctor.MANY_ITEMS = 1\n"
        f"print(len(doctor.examine(Path({str(root)!r})).findings))\n"
    )
    ended = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=120, env={"PYTHONPATH": str(CUSTOM)}
    )
    assert ended.returncode == 0 and ended.stdout.strip().endswith("0")


def test_the_doctor_starts_without_torch() -> None:
    code = "import sys, fedsuper.data.doctor.examine; print('torch' in sys.modules, 'nibabel' in sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env={"PYTHONPATH": str(CUSTOM)}
    )
    assert ended.stdout.split() == ["False", "False"]


def test_speed(tmp_path: Path) -> None:
    """2,000 images of 256 px in 60 s on two cores is 60 ms of one core each; five times that, for slower machines."""
    root = retina_root(tmp_path, sites=("a", "b"), images=20, size=256)
    start = time.process_time()
    doctor.examine(root, workers=1)
    assert (time.process_time() - start) / 40 < 5 * 0.06
