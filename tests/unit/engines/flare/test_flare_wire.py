"""Messages survive NVFlare's serialization bit for bit, whatever their types."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from nvflare.fuel.utils import fobs

from fedsuper.engines.flare import wire
from fedsuper.engines.flare.settings import UNFILTERED
from fedsuper.engines.flare.wire import ENVELOPE, pack, pack_failure, unpack
from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import Message, SiteFailure

TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


def through_the_wire(model):
    """What the other side sees: the bytes NVFlare would send, read back."""
    return FLModelUtils.from_shareable(fobs.loads(fobs.dumps(FLModelUtils.to_shareable(model))))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_tensors_keep_type_shape_and_bits(dtype: torch.dtype) -> None:
    tensor = (torch.arange(6).reshape(2, 3) * 37 % 11).to(dtype)
    sent = Message({"expert/site-1": {"conv.weight": tensor}, "global": {"scalar": tensor[0, 0]}})
    got = unpack(through_the_wire(pack(sent)))
    assert isinstance(got, Message)
    for role, state in sent.models.items():
        for name, value in state.items():
            assert got.models[role][name].dtype == dtype
            assert got.models[role][name].shape == value.shape
            assert torch.equal(got.models[role][name], value)


def test_values_that_print_badly_survive() -> None:
    tensor = torch.tensor([1e-45, -0.0, float("nan"), float("inf"), 1 / 3])
    got = unpack(through_the_wire(pack(Message({"m": {"w": tensor}}))))
    assert isinstance(got, Message)
    assert torch.equal(got.models["m"]["w"].view(torch.int32), tensor.view(torch.int32))


def test_views_and_roles_without_entries_survive() -> None:
    transposed = torch.arange(6.0).reshape(2, 3).t()
    got = unpack(through_the_wire(pack(Message({"b": {"w": transposed}, "a": {}}))))
    assert isinstance(got, Message)
    assert torch.equal(got.models["b"]["w"], transposed)
    assert list(got.models) == ["b", "a"] and got.models["a"] == {}


def test_info_is_plain_json_and_exact() -> None:
    info = {"round": 3, "metrics": {"val/global": 0.1 + 0.2, "tiny": 5e-324}, "sites": ["Zürich", "b"], "none": None}
    got = unpack(through_the_wire(pack(Message({}, info))))
    assert isinstance(got, Message) and got.info == info


def test_a_failure_arrives_as_its_reason() -> None:
    failure = SiteFailure("a.png: has no label")
    assert unpack(through_the_wire(pack_failure(failure))) == failure


def test_weights_that_a_filter_changed_are_refused_and_mere_arrays_become_tensors() -> None:
    model = pack(Message({"global": {"w": torch.tensor([1.0, 2.0])}}))
    model.params = {key: np.array([1.0, 2.0], dtype=np.float32) for key in model.params}
    got = unpack(model)
    assert isinstance(got, Message) and torch.equal(got.models["global"]["w"], torch.tensor([1.0, 2.0]))
    model.params = {key: np.array([1.0, 0.0], dtype=np.float32) for key in model.params}
    with pytest.raises(FedSuperError, match="changed on the way"):
        unpack(model)


def test_the_meta_data_is_one_text() -> None:
    assert isinstance(pack(Message({}, {"a": 1})).meta[ENVELOPE], str)


def test_a_digest_that_was_taken_as_the_answer_left_travels_with_it() -> None:
    sent = Message({"m": {"w": torch.ones(3)}})
    plain = pack(sent)
    sent.digest = "0" * 64
    marked = pack(sent)
    assert "0" * 64 in marked.meta[ENVELOPE] and "0" * 64 not in plain.meta[ENVELOPE]
    with pytest.raises(FedSuperError, match="changed on the way"):
        unpack(through_the_wire(marked))


def test_without_a_filter_in_between_no_digest_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UNFILTERED, "1")
    monkeypatch.setattr(wire, "digest_of", lambda message: pytest.fail("a digest was taken"))
    sent = Message({"m": {"w": torch.ones(3)}}, {"round": 1})
    assert torch.equal(unpack(through_the_wire(pack(sent))).models["m"]["w"], torch.ones(3))
    monkeypatch.undo()
    with pytest.raises(FedSuperError, match="changed on the way"):
        monkeypatch.setenv(UNFILTERED, "1")
        packed = pack(sent)
        monkeypatch.delenv(UNFILTERED)
        unpack(through_the_wire(packed))
