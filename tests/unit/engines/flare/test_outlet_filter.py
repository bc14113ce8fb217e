"""The outlet as an NVFlare filter: what a site's policy can require of every job, and what it stops."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.filter import ContentBlockedException, Filter
from nvflare.apis.fl_constant import FilterKey, FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext, FLContextManager
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.app_common.filters.percentile_privacy import PercentilePrivacy
from nvflare.app_common.filters.svt_privacy import SVTPrivacy
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from nvflare.private.fed.app.fl_conf import create_privacy_manager

from fedsuper.config.reading import parse_study
from fedsuper.engines.flare import settings
from fedsuper.engines.flare.wire import pack, pack_failure, unpack
from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import TRAIN, Message, SiteFailure
from fedsuper.federation.outlet.audit import digest_of

SITE_POLICY = Path(__file__).parents[4] / "poc_config" / "site"
STUDY = parse_study({"method": "fedavg", "model": {"channels": [4, 8], "residual_units": 0}})
WEIGHTS = {"w": torch.linspace(-1, 1, 50), "n": torch.tensor(4)}
QUESTION = Message({"global": WEIGHTS}, {
    "study": STUDY.to_json(), "label": 0, "sites": ["site-1", "site-2"], "round": 2, "phase": "training", "accepted": 2,
    "task": {"task": "retina", "channels": 3, "regions": {"disc": [1]}},
})
ANSWER = Message({"global": {"w": WEIGHTS["w"] + 0.1, "n": torch.tensor(5)}},
                 {"round": 2, "samples": 40, "metrics": {"val/global": 0.5}})


def shared(message: Message) -> Shareable:
    return FLModelUtils.to_shareable(pack(message))


@pytest.fixture
def filters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Filter, Filter, FLContext]]:
    """The filters of the sample policy, built by NVFlare itself, and the context of one task."""
    for name in (settings.STATE, settings.FILE, settings.MINIMUM):
        monkeypatch.delenv(name, raising=False)
    local = tmp_path / "local"
    local.mkdir()
    shutil.copy(SITE_POLICY / "privacy.json", local)
    (local / "fedsuper.yaml").write_text("audit: ../audit.jsonl\nrefuse_models: [selector]\n")
    workspace = SimpleNamespace(get_site_privacy_file_path=lambda: str(local / "privacy.json"),
                                get_site_config_dir=lambda: str(local), get_root_dir=lambda: str(tmp_path))
    scope = create_privacy_manager(workspace, names_only=False).default_scope
    context = FLContextManager(engine=SimpleNamespace(get_workspace=lambda: workspace), identity_name="site-1",
                               job_id="job-1").new_context()
    context.set_prop(FLContextKey.TASK_NAME, TRAIN, private=True, sticky=False)
    yield scope.task_data_filters[FilterKey.IN][-1], scope.task_result_filters[FilterKey.OUT][-1], context


def passed(filters: tuple[Filter, Filter, FLContext], answer: Shareable, question: Message | None = QUESTION) -> Any:
    incoming, outgoing, context = filters
    if question is not None:
        context.set_prop(FLContextKey.FILTER_DIRECTION, FilterKey.IN, private=True, sticky=False)
        incoming.process(shared(question), context)
    context.set_prop(FLContextKey.FILTER_DIRECTION, FilterKey.OUT, private=True, sticky=False)
    return outgoing.process(answer, context)


def test_a_declared_answer_passes_bit_for_bit_and_nothing_rides_along(filters: Any, tmp_path: Path) -> None:
    given = shared(ANSWER)
    given["photo"] = b"pixels"
    given.set_header("note", "a patient's name")
    out = passed(filters, given)
    assert "photo" not in out and out.get_header("note") is None
    assert digest_of(unpack(FLModelUtils.from_shareable(out))) == digest_of(ANSWER)
    line = json.loads((tmp_path / "audit.jsonl").read_text())
    assert (line["by"], line["result"], line["sha256"]) == ("filter", "sent", digest_of(ANSWER)[1])


@pytest.mark.parametrize("answer", [
    Message(ANSWER.models | {"photo": {"x": torch.zeros(9)}}, ANSWER.info),
    Message({"global": ANSWER.models["global"] | {"x": torch.zeros(9)}}, ANSWER.info),
    Message(ANSWER.models, ANSWER.info | {"patients": ["Jane Doe"]}),
    Message(ANSWER.models, ANSWER.info | {"metrics": {"val/Jane": 0.5}}),
    Message(ANSWER.models | {"selector": {"w": torch.zeros(3)}}, ANSWER.info),
])
def test_an_undeclared_answer_stays_at_the_site(answer: Message, filters: Any, tmp_path: Path) -> None:
    with pytest.raises(ContentBlockedException, match="stays here"):
        passed(filters, shared(answer))
    assert "refused" in json.loads((tmp_path / "audit.jsonl").read_text())["result"]


def test_an_answer_to_a_question_it_has_not_seen_stays(filters: Any) -> None:
    with pytest.raises(ContentBlockedException, match="not seen the question"):
        passed(filters, shared(ANSWER), None)


def test_another_programs_answer_stays(filters: Any) -> None:
    with pytest.raises(ContentBlockedException, match="not a message of FedSuper"):
        passed(filters, DXO(DataKind.WEIGHTS, data={"w": torch.zeros(3)}).to_shareable())


def test_failures_leave_as_a_code_or_as_words_without_names(filters: Any) -> None:
    broken = make_reply(ReturnCode.EXECUTION_EXCEPTION)
    broken["trace"] = "jane.png"
    out = passed(filters, broken)
    assert out.get_return_code() == ReturnCode.EXECUTION_EXCEPTION and "trace" not in out
    told = unpack(FLModelUtils.from_shareable(passed(filters, FLModelUtils.to_shareable(
        pack_failure(SiteFailure("/data/site-1/images/jane.png: cannot be read"))))))
    assert isinstance(told, SiteFailure) and "jane" not in told.reason and "cannot be read" in told.reason


@pytest.mark.parametrize("spoiler", [PercentilePrivacy(), SVTPrivacy()])
def test_nvflares_noise_filters_are_refused_where_they_spoil_weights(spoiler: Filter, filters: Any) -> None:
    spoilt = spoiler.process(shared(Message(ANSWER.models, ANSWER.info)), filters[2])
    if spoilt is None or "DXO" not in spoilt:
        pytest.fail("the filter no longer takes weights")
    with pytest.raises(FedSuperError, match="take it out of the job and of the site's privacy.json"):
        unpack(FLModelUtils.from_shareable(spoilt))
