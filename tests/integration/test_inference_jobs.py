"""A super model in use on NVFlare: whoever runs the job, every site's masks are those of `fedsuper predict`.

The federation has one hospital more than the super model: it never trained.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from site_processes import worker_of

from fedsuper.data.synthetic.retina import write_retina
from fedsuper.engines.flare import settings
from fedsuper.engines.flare.launch.processes import ProcessFamily
from fedsuper.inference.predict.predict_paths import predict_paths

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def root(pair_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two hospitals that trained, and one outside."""
    folder = tmp_path_factory.mktemp("three") / "root"
    write_retina(folder.with_name("more"), sites=3, images=36, size=48, seed=1, difficulty="easy")
    shutil.copytree(pair_root, folder)
    shutil.copytree(folder.with_name("more") / "site-3", folder / "site-3")
    return folder


@pytest.fixture(scope="module")
def super_model(local_run: Path) -> Path:
    return local_run / "supermodel"


def masks(folder: Path) -> dict[str, bytes]:
    """Every mask, byte for byte."""
    found = {path.name: path.read_bytes() for path in folder.glob("*.png")}
    assert len(found) == 12
    return found


@pytest.fixture(scope="module")
def desk(super_model: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """`fedsuper predict` at each hospital's desk, by mode and site."""
    folder = tmp_path_factory.mktemp("desk")
    places = {(mode, site.name): folder / mode / site.name
              for mode in ("select", "route") for site in sorted(root.glob("site-*"))}
    for (mode, site), place in places.items():
        assert predict_paths(super_model, [root / site], place, mode) == 0
    return places


@pytest.mark.parametrize(("mode", "threads"), [("select", 2), ("route", 3)])
def test_nvflare_simulator_runs_the_job_of_the_repository(
    mode: str, threads: int, root: Path, super_model: Path, desk, tmp_path: Path
) -> None:
    """Also with fewer threads than sites, where every task is a process of its own."""
    family = ProcessFamily()
    job = f"jobs/inference-{mode}"
    command = [sys.executable, "-m", "nvflare.cli", "simulator", job, "-w", str(tmp_path / "ws"), "-n", "3",
               "-t", str(threads)]
    environment = family.environment({settings.DATA: str(root), settings.SUPER_MODEL: str(super_model)})
    try:
        done = subprocess.run(command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=environment, timeout=500)
    finally:
        family.end()
    assert done.returncode == 0, done.stdout[-3000:]
    told = json.loads((tmp_path / "ws" / "server" / "simulate_job" / "sites.json").read_text())
    assert list(told["sites"]) == ["site-1", "site-2", "site-3"]
    for site in told["sites"]:
        assert masks(tmp_path / "ws" / site / "simulate_job" / "outbox") == masks(desk[mode, site])


def start(*arguments: str) -> subprocess.Popen[str]:
    """A command as a user starts it."""
    return subprocess.Popen([sys.executable, "-m", "fedsuper.cli", *arguments], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_poc_whose_machines_refuse_code_gives_the_same_masks(
    root: Path, super_model: Path, desk, tmp_path: Path
) -> None:
    """The sites that trained hold the models already; the one outside is sent them."""
    out = tmp_path / "run"
    with start("infer", str(super_model), "--data", str(root), "--out", str(out), "--engine", "poc", "--mode",
               "select") as process:
        shown, problems = process.communicate(timeout=400)
    assert process.returncode == 0, problems
    for site in ("site-1", "site-2", "site-3"):
        assert masks(out / "sites" / site / "outbox") == masks(desk["select", site])
        assert site in shown
    assert json.loads((out / "sites.json").read_text())["failed"] == {}


def test_a_site_that_dies_is_named_and_the_others_finish_then_all_do(
    root: Path, super_model: Path, desk, tmp_path: Path
) -> None:
    """Its process is killed while it works; asked again, the federation goes on and ends with every mask."""
    out = tmp_path / "run"
    arguments = ("infer", str(super_model), "--data", str(root), "--out", str(out), "--mode", "route")
    with start(*arguments) as process:
        work = out / "state" / "sites" / "site-2" / "serving" / "work.json"
        while not work.exists():
            try:
                process.wait(0.1)
                raise AssertionError(process.communicate())
            except subprocess.TimeoutExpired:
                continue
        victim = worker_of("site-2", psutil.Process(process.pid))
        assert victim is not None
        victim.kill()
        shown, problems = process.communicate(timeout=400)
    assert process.returncode == 1, problems
    told = json.loads((out / "sites.json").read_text())
    assert list(told["sites"]) == ["site-1", "site-3"] and list(told["failed"]) == ["site-2"]
    assert "site-2" in shown.splitlines()[-1]
    with start(*arguments) as process:
        _, problems = process.communicate(timeout=400)
    assert process.returncode == 0, problems
    for site in ("site-1", "site-2", "site-3"):
        assert masks(out / "sites" / site / "outbox") == masks(desk["route", site])
