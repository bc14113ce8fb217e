"""What a site keeps: torn falls back, lost is said so, and nothing starts anew in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedsuper.errors import FedSuperError
from fedsuper.federation.site_worker import SiteWorker
from fedsuper.train.checkpoint import save_models


@pytest.fixture
def worker(tmp_path: Path) -> SiteWorker:
    worker = SiteWorker("cedar", tmp_path / "root", tmp_path / "state")
    for number in (1, 2, 3):
        models = {"personal": {"w": torch.full((2,), float(number))}}
        save_models(worker.state_folder / f"state-{number:05d}.safetensors", models, {"round": number})
    return worker


def test_a_site_goes_on_from_the_round_that_was_counted(worker: SiteWorker) -> None:
    assert [worker._load_store(number).values.get("round") for number in (0, 1, 2, 3)] == [None, 1, 2, 3]


def test_torn_state_falls_back_to_the_one_before(worker: SiteWorker) -> None:
    newest = worker.state_folder / "state-00003.safetensors"
    newest.write_bytes(newest.read_bytes()[:50])
    assert worker._load_store(3).values == {"round": 2}


def test_lost_state_is_an_error_with_its_remedy(worker: SiteWorker) -> None:
    for path in worker.state_folder.glob("state-*"):
        path.unlink()
    with pytest.raises(FedSuperError, match="^cedar: what it kept of the rounds up to 3 is lost.*--without cedar"):
        worker._load_store(3)
    assert worker._load_store(0).models == {}, "a site that never counted starts anew"
