"""Real processes on a federation of two tiny hospitals; runs are shared because each start costs seconds."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.engines.flare.launch.simulator import run_simulator
from fedsuper.engines.in_process import run_local
from fedsuper.federation.progress import Silent
from fedsuper.inference.artifact import save_super_model

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.integration)
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def pair_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two synthetic hospitals, read-only by agreement."""
    root = tmp_path_factory.mktemp("pair") / "root"
    write_retina(root, sites=2, images=24, size=48, seed=0, difficulty="easy")
    return root


@pytest.fixture(scope="session")
def pair_study() -> Study:
    """Two rounds, so that what a site keeps between rounds matters; BatchNorm, so that integers travel too.

    The plain U-Net spares every process the import of MONAI. Metrics are streamed, which no study does by itself.
    """
    stream = {"tracking": "tensorboard"}
    model = {"name": "plain-unet", "channels": [4, 8], "norm": "batch"}
    return parse_study({"method": "fedsm", "rounds": 2, "image_size": 32, "model": model, "optimizer": {"lr": 0.01},
                        **stream})


@pytest.fixture(scope="session")
def local_run(pair_root: Path, pair_study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study in process, unbroken: what every other engine is held to."""
    folder = tmp_path_factory.mktemp("local")
    super_model = run_local(pair_study, pair_root, folder / "state", Silent())
    save_super_model(super_model, folder / "supermodel")
    return folder


@pytest.fixture(scope="session")
def simulator_run(
    pair_root: Path, pair_study: Study, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """The study on the simulator, all sites side by side, in a folder with a space; and what the terminal showed."""
    folder = tmp_path_factory.mktemp("simulator") / "my run"
    shown = io.StringIO()
    run_simulator(pair_study, pair_root, folder, shown)
    return folder, shown.getvalue()
