"""A site's inference on NVFlare: every byte of its answer is read, whatever happens at the site."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nvflare.apis.signal import Signal
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from nvflare.fuel.utils import fobs
from super_models import random_super_model

from fedsuper.engines.flare import settings
from fedsuper.engines.flare.inference_executor import EvaluationExecutor, InferenceExecutor, ServingExecutor
from fedsuper.engines.flare.wire import pack, unpack
from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import Message, SiteFailure
from fedsuper.federation.serving.held_models import identity_of, offered
from fedsuper.federation.serving.request import OFFER, PREDICT, SCORE, Request
from fedsuper.federation.serving.site import ServingSite
from fedsuper.federation.serving.work import run
from fedsuper.inference.artifact import load_super_model, save_super_model

SECRET = "kowalski"


@pytest.fixture(scope="module")
def super_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "supermodel"
    save_super_model(random_super_model(["site-1", "site-2"]), folder)
    return folder


@pytest.fixture
def root(tiny_root: Path, tmp_path: Path) -> Path:
    """A hospital whose every file and folder name would tell who a patient is."""
    root = tmp_path / f"{SECRET}-data"
    shutil.copytree(tiny_root, root)
    for path in [*root.glob("*/images/*"), *root.glob("*/labels/*")]:
        path.rename(path.with_name(f"{SECRET}-{path.name}"))
    for path in root.glob("*/cases.csv"):
        path.unlink()
    return root


@pytest.fixture
def context(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    for name in (settings.STATE, settings.KEPT, settings.OUTBOX, settings.FILE, settings.DEVICE, settings.DEVICES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(settings.DATA, str(root))
    monkeypatch.setattr(ServingSite, "_run_child", lambda self, path, seconds: run(path))  # in this process
    workspace = SimpleNamespace(get_site_config_dir=lambda: str(tmp_path / "local"),
                                get_run_dir=lambda job_id: str(tmp_path / job_id), get_root_dir=lambda: str(tmp_path))
    engine = SimpleNamespace(get_workspace=lambda: workspace)
    return SimpleNamespace(get_identity_name=lambda: "site-1", get_engine=lambda: engine, get_job_id=lambda: "job-7")


def answer_bytes(executor: ServingExecutor, context: Any, folder: Path, kind: str, models: bool = True,
                 **request: Any) -> tuple[bytes, Message | SiteFailure]:
    """What the site puts on the wire, and what the server reads in it."""
    info = {"manifest": offered(folder), "identity": identity_of(folder),
            "request": Request.model_validate(request).to_json()}
    message = Message(load_super_model(folder).to_models() if models else {}, info)
    for name in ("log_warning", "log_exception"):
        setattr(executor, name, lambda context, text: None)
    sent = executor.execute(kind, FLModelUtils.to_shareable(pack(message)), context, Signal())
    data = fobs.dumps(sent)
    assert SECRET.encode() not in data and SECRET.upper().encode() not in data
    return data, unpack(FLModelUtils.from_shareable(fobs.loads(data)))


def test_a_prediction_answers_with_sums_and_leaves_masks_at_home(context, super_model, root, tmp_path) -> None:
    data, answer = answer_bytes(InferenceExecutor("select"), context, super_model, PREDICT, mode="select")
    assert isinstance(answer, Message) and answer.models == {} and answer.info["images"] == 12
    assert len(data) < 2000
    outbox = tmp_path / "job-7" / "outbox"
    assert len(list(outbox.glob(f"{SECRET}-*.png"))) == 12 and (outbox / "routing.csv").exists()


def test_an_evaluation_answers_with_means(context, super_model) -> None:
    _, answer = answer_bytes(EvaluationExecutor("all"), context, super_model, SCORE, task=SCORE, split="all")
    assert isinstance(answer, Message) and set(answer.info["models"]) == {"global", "site-1", "site-2", "select"}


def test_an_offer_answers_with_what_lacks(context, super_model) -> None:
    _, answer = answer_bytes(InferenceExecutor("select"), context, super_model, OFFER, models=False, mode="select")
    assert isinstance(answer, Message) and "global" in answer.info["missing"]


@pytest.mark.parametrize(("executor", "task", "asked"), [
    (InferenceExecutor("select"), PREDICT, {"mode": "route"}),
    (InferenceExecutor("select"), SCORE, {"task": SCORE}),
    (EvaluationExecutor("test"), SCORE, {"task": SCORE, "split": "train"}),
], ids=["another mode", "another task", "another split"])
def test_a_server_that_asks_for_something_else_than_the_job_says_is_refused(
    executor, task, asked, context, super_model
) -> None:
    _, answer = answer_bytes(executor, context, super_model, task, **asked)
    assert isinstance(answer, SiteFailure) and "something else than the job says" in answer.reason


def broken_image(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (root / "site-1" / "images").iterdir():
        path.write_bytes(b"no picture")


def no_data(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(root)


def full_disk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self, task, message):
        raise OSError(28, "No space left on device", f"/{SECRET}/outbox")

    monkeypatch.setattr(ServingSite, "handle", fail)


def odd_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path):
        raise FedSuperError(f"{SECRET}.png: cannot be read")

    monkeypatch.setattr("fedsuper.federation.serving.work.find_images", fail)


@pytest.mark.parametrize("trouble", [broken_image, no_data, full_disk, odd_error])
def test_no_name_leaves_with_an_error_either(trouble, context, super_model, root, monkeypatch) -> None:
    trouble(root, monkeypatch)
    _, answer = answer_bytes(InferenceExecutor("select"), context, super_model, PREDICT, mode="select")
    told = answer.reason if isinstance(answer, SiteFailure) else answer.info
    assert isinstance(answer, SiteFailure) or told["images"] is None
