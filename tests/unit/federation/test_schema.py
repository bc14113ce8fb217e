"""What passes is checked where it is opened: by name, in one line."""

from __future__ import annotations

from typing import Any

import pytest

from fedsuper.errors import FedSuperError
from fedsuper.federation.door.last_replies import SettleReply
from fedsuper.federation.door.replies import Known, TrainReply
from fedsuper.federation.message_schema import RoundRequest, opened
from fedsuper.federation.messages import Message

KNOWN = Known("site-2", round=3, samples={"train": 8, "val": 4, "test": 4}, roles=frozenset({"global"}),
              regions=frozenset({"disc"}), folders=frozenset({"site-2"}))
HONEST: dict[str, Any] = {"round": 3, "samples": 8, "metrics": {"val/global": 0.5, "loss/global": 1.7}, "releases": 0}


def test_a_request_comes_out_as_it_went_in() -> None:
    request = RoundRequest(study={}, label=1, sites=["a", "b"], round=3, phase="training", accepted=2, task={})
    assert opened("b", request.message(), RoundRequest) == request


def test_an_honest_answer_comes_out_as_it_went_in() -> None:
    assert opened("site-2", Message(info=HONEST), TrainReply, KNOWN).model_dump() == HONEST


@pytest.mark.parametrize("change", [
    {"samples": 0}, {"samples": 9}, {"samples": "8"}, {"samples": True}, {"round": 2}, {"unknown": 1},
    {"metrics": {"val/global": None}}, {"metrics": {"val/global": 1.5}}, {"metrics": {"val/other": 0.5}},
    {"metrics": [0.5]},
])
def test_an_answer_that_does_not_fit_is_one_line_with_the_sites_name(change: dict[str, Any]) -> None:
    with pytest.raises(FedSuperError, match=r"^site-2: its answer does not fit: .*install the same FedSuper") as raised:
        opened("site-2", Message(info=HONEST | change), TrainReply, KNOWN)
    assert "\n" not in str(raised.value)


def test_scores_are_of_the_sites_own_folder_and_regions() -> None:
    scores: dict[str, Any] = {"site-2": {"disc": 0.5, "mean": 0.5, "n": 3}}
    told = opened("site-2", Message(info={"round": 3, "scores": scores}), SettleReply, KNOWN).scores
    assert str(told) == str(scores), "a count stays one"
    whole = {"site-2": scores["site-2"] | {"mean_low": 0.4, "mean_high": 0.6}}
    assert opened("site-2", Message(info={"round": 3, "scores": whole}), SettleReply, KNOWN).scores == whole
    for wrong in ({"mean_low": 0.4}, {"mean_low": 0.4, "mean_high": 1.6}, {"mean_low": 0, "mean_high": 1, "sd": 0.1}):
        with pytest.raises(FedSuperError, match="site-2: its answer does not fit"):
            lie = {"site-2": scores["site-2"] | wrong}
            opened("site-2", Message(info={"round": 3, "scores": lie}), SettleReply, KNOWN)
    with pytest.raises(FedSuperError, match="scores: expected site-2"):
        opened("site-2", Message(info={"round": 3, "scores": {"site-1": scores["site-2"]}}), SettleReply, KNOWN)
