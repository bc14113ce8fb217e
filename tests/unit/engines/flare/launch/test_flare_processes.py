"""A family of processes is found and ended whole, even across sessions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import fedsuper
from fedsuper.engines.flare.launch.processes import ProcessFamily

# A child that starts a grandchild in a session of its own, says so, and waits for ever.
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "print('up', flush=True); import threading; threading.Event().wait()"],
                         stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


def test_a_grandchild_in_another_session_is_ended_too() -> None:
    family, stranger = ProcessFamily(), ProcessFamily()
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, start_new_session=True,
                          env=family.environment({})) as process:
        assert process.stdout is not None
        grandchild = psutil.Process(int(process.stdout.readline()))
        try:
            assert {member.pid for member in family.members()} == {process.pid, grandchild.pid}
            assert stranger.members() == []
            stranger.end()
            assert process.poll() is None
        finally:
            family.end()
        process.wait(10)
    assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE
    assert family.members() == []


# A process that keeps a family with one member, and is then killed.
KEEPER = f"""
import subprocess, sys
from fedsuper.engines.flare.launch.processes import ProcessFamily
from pathlib import Path
family = ProcessFamily()
with family.kept(Path(sys.argv[1])):
    child = subprocess.Popen([sys.executable, "-c", {PARENT!r}], stdout=subprocess.PIPE, env=family.environment({{}}))
    print(child.stdout.readline().decode(), family.mark, flush=True)
    child.wait()
"""


def test_a_family_and_its_folder_do_not_outlive_a_keeper_that_is_killed(tmp_path: Path) -> None:
    environment = ProcessFamily().environment({})
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "tensors").write_bytes(b"x")
    command = [sys.executable, "-c", KEEPER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as keeper:
        assert keeper.stdout is not None
        grandchild, family = int(keeper.stdout.readline()), ProcessFamily(keeper.stdout.readline().strip())
        members = family.members()  # the guard, which removes the folder, among them
        assert grandchild in {member.pid for member in members}
        keeper.kill()
    _, alive = psutil.wait_procs(members, timeout=30)
    assert alive == [] and family.members() == [] and not folder.exists()


def test_a_family_ends_with_its_block_and_so_does_its_folder(tmp_path: Path) -> None:
    family, folder = ProcessFamily(), tmp_path / "shared"
    folder.mkdir()
    with pytest.raises(KeyboardInterrupt), family.kept(folder):
        subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, env=family.environment({}))
        raise KeyboardInterrupt
    assert family.members() == [] and not folder.exists()


def test_members_import_the_same_package_and_see_the_given_values() -> None:
    family = ProcessFamily()
    code = "import fedsuper, os; print(fedsuper.__file__, os.environ['FEDSUPER_TEST'])"
    environment = family.environment({"FEDSUPER_TEST": "seen"})
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.split() == [fedsuper.__file__, "seen"]


@pytest.mark.skipif(sys.platform != "linux", reason="forks are made on Linux alone")
def test_a_fork_that_closes_a_file_meanwhile_is_still_a_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are listed, then looked at; whatever it closed in between says nothing of the one with the mark."""
    family = ProcessFamily()
    held = os.memfd_create(family.mark)
    look, missed = os.readlink, []

    def readlink(path: Path) -> str:
        if not missed:
            missed.append(path)
            raise FileNotFoundError(path)
        return look(path)

    monkeypatch.setattr(os, "readlink", readlink)
    try:
        assert family._holds(os.getpid()) and missed
    finally:
        os.close(held)
    missed.clear()
    assert not family._holds(os.getpid())
