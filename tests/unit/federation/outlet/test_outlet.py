"""What leaves a site is what is declared, is written down at the site, and holds no name, path or figure of a few."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from fedsuper.config import Study
from fedsuper.config.reading import change_study, parse_study
from fedsuper.core.supermodel import SuperModel
from fedsuper.engines.in_process import LocalExchange
from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import DESCRIBE, FINISH, SETTLE, TRAIN, Message, SiteFailure
from fedsuper.federation.outlet.audit import AUDIT_FILE, digest_of
from fedsuper.federation.outlet.declared import REPLIES, SUMS
from fedsuper.federation.outlet.document import document
from fedsuper.federation.outlet.release import SiteRules, check_release
from fedsuper.federation.progress import Progress
from fedsuper.federation.server_loop import Federation
from fedsuper.federation.site_worker import SiteWorker

REPOSITORY = Path(__file__).parents[4]
STUDY = parse_study({
    "method": "fedsm", "rounds": 1, "image_size": 32, "model": {"channels": [4, 8], "residual_units": 0},
    "compute": {"cache_mb": 64},
})
Traffic = list[tuple[str, str, Message, Message]]


class Tapped(LocalExchange):
    """Keeps everything that passes."""

    traffic: Traffic

    def _one(self, task: str, site: str, message: Message) -> Message | SiteFailure:
        sent = copy.deepcopy(message)
        reply = super()._one(task, site, message)
        assert isinstance(reply, Message), reply
        self.traffic.append((task, site, sent, reply))
        return reply


def trained(root: Path, folder: Path, study: Study, rules: SiteRules) -> tuple[SuperModel, Traffic]:
    workers = {site: SiteWorker(site, root, folder / site, rules) for site in ("site-1", "site-2", "site-3")}
    exchange = Tapped(workers)
    exchange.traffic = []
    return Federation(study, exchange, folder / "server", Progress("", None)).run(), exchange.traffic


@pytest.fixture(scope="module")
def named_root(tiny_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny hospitals with images that bear names."""
    root = tmp_path_factory.mktemp("named") / "root"
    shutil.copytree(tiny_root, root)
    for path in root.rglob("*.png"):
        path.rename(path.with_name(f"jane-doe-{path.stem}.png"))
    return root


@pytest.fixture(scope="module")
def run(named_root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SuperModel, Traffic]:
    """A run under a strict umask."""
    folder = tmp_path_factory.mktemp("open")
    before = os.umask(0o077)
    try:
        return folder, *trained(named_root, folder, STUDY, SiteRules())
    finally:
        os.umask(before)


def test_the_document_is_in_step_with_the_code() -> None:
    page = (REPOSITORY / "docs" / "reference" / "what-travels.md").read_text(encoding="utf-8")
    assert page == document(), "python -m fedsuper.federation.outlet.document > docs/reference/what-travels.md"


def undeclared(answer: Message) -> list[Message]:
    """The answer with one thing more than is declared, in every place that can hold one."""
    more = [Message(answer.models, answer.info | {"note": "x"}),
            Message(answer.models | {"photo": {"pixels": torch.zeros(3)}}, answer.info)]
    for name, state in answer.models.items():
        entry, tensor = next(iter(state.items()))
        more += [Message(answer.models | {name: state | {"extra": torch.zeros(2)}}, answer.info),
                 Message(answer.models | {name: state | {entry: torch.zeros(*tensor.shape, 2)}}, answer.info)]
    for key, value in answer.info.items():
        if isinstance(value, dict) and key != "samples":
            more.append(Message(answer.models, answer.info | {key: value | {"patient": 1.0}}))
    return more


def test_nothing_undeclared_leaves(run: tuple[Path, SuperModel, Traffic]) -> None:
    tried: dict[str, int] = {}
    for task, site, question, answer in run[2]:
        check_release(site, task, question, answer)
        for lie in undeclared(answer):
            with pytest.raises(FedSuperError, match=f"{site}: the answer to '{task}' stays here"):
                check_release(site, task, question, lie)
            tried[task] = tried.get(task, 0) + 1
    assert set(tried) == {task for task in REPLIES if task not in ("offer", "predict", "score", "calibrate")} | {
        "calibrate"}
    assert tried[TRAIN] > 3 * 6


def test_a_question_that_nobody_declared_gets_no_answer() -> None:
    with pytest.raises(FedSuperError, match="nothing is declared"):
        check_release("a", "shell", Message(), Message(info={"round": 1}))
    with pytest.raises(FedSuperError, match="stays here"):
        check_release("a", TRAIN, Message(info={"round": 1}), Message(info={"round": 1}))


def test_no_byte_names_an_image_a_patient_or_a_path(run: tuple[Path, SuperModel, Traffic], named_root: Path) -> None:
    folder, _, traffic = run
    for _, site, _, answer in traffic:
        words = json.dumps(answer.info) + " ".join(f"{role}/{name}" for role, state in answer.models.items()
                                                   for name in state)
        assert not [secret for secret in ("jane", "doe", str(named_root), str(folder)) if secret in words]
        # Of the other sites it may name the models alone: the columns of its row of expected Dice.
        plain = re.sub(r'"dice_sum": \{[^}]*\}', "", words)
        assert not [other for other in {"site-1", "site-2", "site-3"} - {site} if other in plain]


def test_every_answer_is_a_line_in_the_sites_own_file(run: tuple[Path, SuperModel, Traffic]) -> None:
    folder, _, traffic = run
    for site in ("site-1", "site-2", "site-3"):
        lines = [json.loads(line) for line in (folder / site / AUDIT_FILE).read_text().splitlines()]
        answers = [(task, answer) for task, whose, _, answer in traffic if whose == site]
        assert [(line["task"], (line["bytes"], line["sha256"])) for line in lines] == [
            (task, digest_of(answer)) for task, answer in answers]
        assert [line["sha256"] for line in lines] == [answer.digest for _, answer in answers]
        assert {line["result"] for line in lines} == {"sent"}
        assert lines[1]["models"].keys() == {"global", "personal", "selector"}


def test_a_refused_answer_is_a_line_as_well(run: tuple[Path, SuperModel, Traffic], tiny_root: Path,
                                            tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, site, question, answer = next(each for each in run[2] if each[0] == FINISH)
    worker = SiteWorker(site, tiny_root, tmp_path)
    monkeypatch.setattr(worker, "_answer", lambda *_: undeclared(answer)[0])
    with pytest.raises(FedSuperError, match="stays here"):
        worker.handle(task, question)
    assert "refused" in json.loads((tmp_path / AUDIT_FILE).read_text())["result"]


def test_a_site_hears_nothing_of_the_others_figures(run: tuple[Path, SuperModel, Traffic]) -> None:
    folder, super_model, _ = run
    assert len(super_model.manifest["history"]) == 2 and len(super_model.manifest["provenance"]["samples"]) == 3
    told = json.loads((folder / "site-1" / "supermodel" / "supermodel.json").read_text())
    assert "history" not in told and "test" not in told["metrics"]
    assert set(told["metrics"]["validation"]) == {"global", "selector", "personal/site-1"}
    assert set(told["provenance"]["samples"]) == {"site-1"}


def test_only_the_owner_reads_what_a_run_leaves_under_umask_077(run: tuple[Path, SuperModel, Traffic]) -> None:
    files = [path for path in run[0].rglob("*") if path.is_file()]
    assert any("cache" in path.parts for path in files), "cached images are among them"
    assert not [path for path in files if path.stat().st_mode & 0o077]


def test_figures_of_a_few_patients_stay(tiny_root: Path, tmp_path: Path) -> None:
    super_model, traffic = trained(tiny_root, tmp_path, STUDY, SiteRules(minimum=50))
    for task, _, _, answer in traffic:
        assert not answer.info.get("metrics") and not answer.info.get("calibration") and SUMS not in answer.models
        if task == DESCRIBE:
            assert set(answer.info["samples"].values()) == {50} and answer.info["fingerprint"]["intensity"] is None
        if task == SETTLE:
            assert set(answer.info["scores"].values()) == {None}
    assert super_model.manifest["metrics"]["test"] == {} and super_model.manifest["gamma"] is None
    assert all(not told for entry in super_model.manifest["history"] for told in entry["sites"].values())


def test_a_study_may_ask_for_a_larger_minimum_than_the_site(tiny_root: Path, tmp_path: Path) -> None:
    worker = SiteWorker("site-1", tiny_root, tmp_path, SiteRules(minimum=2))
    study = change_study(STUDY, ["privacy.minimum=40"])
    answer = worker.handle(DESCRIBE, Message(info={"study": study.to_json(), "resume": False}))
    assert set(answer.info["samples"].values()) == {40}


@pytest.mark.parametrize(("rules", "line"), [
    (SiteRules(refuse_methods=["fedsm"]), "takes no part in fedsm"),
    (SiteRules(refuse_models=["selector"]), "does not send 'selector'"),
    (SiteRules(refuse_models=[SUMS]), f"does not send '{SUMS}'"),
])
def test_a_site_vetoes_methods_and_models(rules: Any, line: str, tiny_root: Path, tmp_path: Path) -> None:
    worker = SiteWorker("site-1", tiny_root, tmp_path, rules)
    with pytest.raises(FedSuperError, match=line):
        worker.handle(DESCRIBE, Message(info={"study": STUDY.to_json(), "resume": False}))
