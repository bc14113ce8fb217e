"""Disks that are full, read-only or forbidden: one line, exit 2, nothing half-written, for every command."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedsuper.cli import main
from fedsuper.data.draft_folder import draft_beside
from fedsuper.errors import OS_ADVICE, explain_os_error
from fedsuper.files import PARTIAL, atomic_write, atomic_write_text, check_place

WRITERS = {
    "synth": ["synth", "--task", "retina", "--sites", "2", "--images", "40", "--size", "128"],
    "run": ["run", "STUDY", "--data", "ROOT", "--engine", "local"],
    "run on the simulator": ["run", "STUDY", "--data", "ROOT"],
    "compare": ["compare", "--data", "ROOT", "--methods", "fedavg"],
    "job": ["job", "STUDY"],
    "bench": ["bench"],
    "import": ["import", "refuge", "ROOT"],
    "predict": ["predict", "nowhere", "x.png"],
    "evaluate": ["evaluate", "nowhere", "--data", "ROOT"],
    "export": ["export", "nowhere", "--to", "pt2"],
    "report": ["report", "nowhere"],
}


@pytest.fixture
def words(tiny_root: Path, tmp_path: Path) -> dict[str, str]:
    study = tmp_path / "study.yaml"
    study.write_text("method: fedavg\nrounds: 1\nimage_size: 32\nmodel: {channels: [4, 8]}\n")
    return {"STUDY": str(study), "ROOT": str(tiny_root)}


def refused(arguments: list[str], words: dict[str, str], out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command into a place that cannot take it; return its one line."""
    capsys.readouterr()
    assert main([*(words.get(word, word) for word in arguments), "--out", str(out)]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("fedsuper: ")]
    assert len(lines) == 1
    return lines[0]


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", place], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_told_before_any_work(name: str, words, tiny_disk: Path, capsys) -> None:
    with pytest.raises(OSError), open(tiny_disk / "ballast", "wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)
    line = refused(WRITERS[name], words, tiny_disk / "out", capsys)
    assert str(tiny_disk / "out") in line and "no space" in line
    assert files_below(tiny_disk) == ["ballast"]


@pytest.mark.parametrize("name", WRITERS)
def test_a_read_only_disk_is_told_before_any_work(name: str, words, tiny_disk: Path, capsys) -> None:
    subprocess.run(["mount", "-o", "remount,ro", tiny_disk], check=True)
    assert "read-only" in refused(WRITERS[name], words, tiny_disk / "deep" / "out", capsys)
    assert not files_below(tiny_disk)


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_in_the_way_is_told(name: str, words, tmp_path: Path, capsys) -> None:
    (tmp_path / "file").write_text("")
    assert "is a file" in refused(WRITERS[name], words, tmp_path / "file" / "out", capsys)


def test_a_disk_that_fills_up_on_the_way_leaves_only_whole_files(words, tiny_disk: Path, capsys) -> None:
    line = refused(WRITERS["synth"], words, tiny_disk / "root", capsys)
    assert "no space" in line and not files_below(tiny_disk)
    line = refused(["run", "STUDY", "--data", "ROOT", "--engine", "local", "--set", "model.channels=[64,64]"],
                   words, tiny_disk / "run", capsys)
    assert "no space" in line and str(tiny_disk) in line
    left = files_below(tiny_disk)
    assert "run/study.yaml" in left and not [name for name in left if PARTIAL in name]


def test_forbidden_places_are_told(words, tmp_path: Path, capsys, monkeypatch) -> None:
    place = tmp_path / "theirs"
    place.mkdir(mode=0o500)
    if os.geteuid() == 0:  # root may write anywhere: let the system refuse as it would anyone else
        def forbid(*args, **kwargs):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))

        monkeypatch.setattr("fedsuper.files.tempfile.TemporaryFile", forbid)
    assert "permission denied" in refused(WRITERS["synth"], words, place / "root", capsys)


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_files_get_the_rights_that_the_umask_gives(mask: int, tmp_path: Path) -> None:
    def replaced(temporary: Path) -> None:  # as safetensors does
        other = temporary.with_name("other")
        other.touch(mode=0o600)
        other.replace(temporary)

    before = os.umask(mask)
    try:
        atomic_write_text(tmp_path / "a.txt", "text")
        atomic_write(tmp_path / "b.bin", replaced)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o666 & ~mask}


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_folders_that_appear_whole_get_the_rights_that_the_umask_gives(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        with draft_beside(tmp_path / "site") as draft:
            draft.replace(tmp_path / "site")
    finally:
        os.umask(before)
    assert (tmp_path / "site").stat().st_mode & 0o777 == 0o777 & ~mask


def test_rust_libraries_errors_are_the_disks_errors(tmp_path: Path) -> None:
    def write(temporary: Path) -> None:
        raise RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")

    with pytest.raises(OSError) as caught:
        atomic_write(tmp_path / "model.safetensors", write)
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(tmp_path / "model.safetensors")
    assert not files_below(tmp_path)


def test_other_errors_pass_unchanged(tmp_path: Path) -> None:
    def write(temporary: Path) -> None:
        raise ValueError("a fault of ours")

    with pytest.raises(ValueError, match="a fault of ours"):
        atomic_write(tmp_path / "x", write)


def test_trying_a_place_makes_nothing(tmp_path: Path) -> None:
    check_place(tmp_path / "a" / "b" / "c")
    assert not files_below(tmp_path)


@pytest.mark.parametrize("number", OS_ADVICE)
def test_every_known_error_names_path_and_remedy(number: int) -> None:
    line = explain_os_error(OSError(number, os.strerror(number), "/some/where"))
    assert line and line.startswith("/some/where: ") and "; " in line and "\n" not in line


def test_an_error_without_a_number_is_a_fault_of_ours() -> None:
    assert explain_os_error(OSError("encoder error")) is None


def test_an_error_without_a_path_names_the_place_of_the_output() -> None:
    assert (explain_os_error(OSError(errno.ENOSPC, "full"), Path("out")) or "").startswith("out: no space")
