"""The hand-over does not grow with the square of the number of sites: each gets a bounded share of the models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from fedsuper.bench import wire_bytes
from fedsuper.config.reading import parse_study
from fedsuper.core.calibration import TEMPERATURES
from fedsuper.core.discriminant import discriminant, nearest_classes, pack_means, pack_sums, unpack_sums
from fedsuper.core.expected_dice import choose_utility
from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.mode import MIX, SELECT
from fedsuper.core.supermodel import SuperModel
from fedsuper.engines.in_process import LocalExchange, run_local
from fedsuper.federation.completion.shares import Shares
from fedsuper.federation.messages import Message, SiteFailure
from fedsuper.federation.progress import Silent
from fedsuper.inference.artifact import load_super_model, save_super_model
from fedsuper.inference.modes.base import ModeOptions, create_mode
from fedsuper.inference.predict.predict_paths import predict_paths
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.cost_gate import ExpectedDiceGate
from fedsuper.train.device import Compute

SITES = [f"site-{index}" for index in range(6)]


def sums_at(*places: float | None) -> list[FeatureSums]:
    """Sites whose images lie around a place; None sent nothing."""
    random = torch.Generator().manual_seed(0)
    return [FeatureSums.nothing(3) if place is None else
            FeatureSums.of(place + torch.randn(40, 3, generator=random)) for place in places]


def model(mode: str = SELECT) -> SuperModel:
    weights = {site: {"w": torch.full((4,), float(index))} for index, site in enumerate(SITES)}
    return SuperModel(SITES, {"w": torch.zeros(4)}, weights, {"s": torch.zeros(2)}, mode)


def test_the_nearest_are_those_whose_images_are_alike() -> None:
    assert nearest_classes(sums_at(0, 9, 2, None, 5), 0, 5) == [2, 4, 1, 3]
    assert nearest_classes(sums_at(0, 9, 2, None, 5), 3, 5) == [4, 0, 1, 2], "without sums: in a circle"
    assert nearest_classes(None, 2, 4) == [3, 0, 1]


def test_a_site_gets_the_global_model_and_its_own_first_then_the_nearest_up_to_the_bound() -> None:
    shares = Shares(model(), 4)
    assert shares.bounded
    assert set(shares.first("site-2")) == {"global", "selector", "personal/site-2"}
    assert shares.experts("site-2") == {"global", "site-2"}
    assert set(shares.next("site-2", sums_at(0, 1, 5, 6, 9, 4.4))) == {"personal/site-5", "personal/site-3"}
    assert shares.experts("site-2") == {"global", "site-2", "site-3", "site-5"}
    assert shares.elsewhere("site-2") == ["site-0", "site-1", "site-4"]
    assert not shares.next("site-2", None), "no more than the bound, however often it is asked"


@pytest.mark.parametrize("handover, mode", [("all", SELECT), (7, SELECT), (3, MIX)])
def test_all_get_all_where_that_is_within_bounds_or_the_mode_needs_it(handover: int | str, mode: str) -> None:
    shares = Shares(model(mode), handover)
    assert not shares.bounded and set(shares.first("site-0")) == set(model().to_models())
    assert shares.experts("site-0") == {"global", *SITES}
    assert set(Shares(model(), "own").first("site-4")) == {"global", "selector", "personal/site-4"}


def test_means_and_one_covariance_make_the_same_discriminant_as_all_sums() -> None:
    sums = sums_at(0, 3, None, 7)
    short = unpack_sums(pack_means(sums))
    one, other = (discriminant(each, 0.1) for each in (unpack_sums(pack_sums(sums)), short))
    for name in ("shift", "scale", "means", "precision"):
        torch.testing.assert_close(getattr(other, name), getattr(one, name), rtol=1e-9, atol=1e-9)
    assert torch.equal(one.known, other.known)


def test_what_nobody_measured_is_unknown_and_never_chosen_for_it() -> None:
    entropy = [float(t) for t in TEMPERATURES]  # the lowest temperature is the best
    rows = {"a": {"dice_sum": {"global": 3.0, "a": 3.6}, "cross_entropy": entropy, "images": 4},
            "b": {"dice_sum": {"global": 2.0, "b": 3.9}, "cross_entropy": entropy, "images": 4}}
    utility = choose_utility(rows)
    assert utility["experts"] == ["global", "a", "b"] and utility["dice"]["a"] == [0.75, 0.9, None]
    gate = ExpectedDiceGate(utility, ["a", "b"])
    assert gate.choose(torch.eye(2, dtype=torch.float64)) == ["a", "b"]
    assert not math.isnan(float(gate.table.sum()))
    here = ExpectedDiceGate(utility, ["a", "b"], held={"global", "b"})
    assert here.experts == ["global", "b"] and here.choose(torch.eye(2, dtype=torch.float64)) == ["global", "b"]


def test_bytes_grow_with_the_sites_and_not_with_their_square() -> None:
    few, many = (wire_bytes.handover(count, 4) for count in (8, 32))
    assert many / few == pytest.approx(4, rel=0.03)
    assert wire_bytes.handover(8, "all") > 2 * few


class Weighed(LocalExchange):
    """Remembers which models were sent to whom."""

    sent: dict[str, list[str]] = {}

    def __call__(self, task: str, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | SiteFailure]:
        if task in ("handover", "calibrate"):
            for site, message in messages.items():
                self.sent.setdefault(site, []).extend(message.models)
        return super().__call__(task, messages, timeout)


def test_a_whole_study_with_a_bound(tiny_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three sites and three models each: the global one, its own and one neighbor's."""
    monkeypatch.setattr("fedsuper.engines.in_process.LocalExchange", Weighed)
    monkeypatch.setattr(Weighed, "sent", {})
    study = parse_study({"method": "fedsm", "rounds": 1, "image_size": 32, "model": {"channels": [2, 4]},
                         "federation": {"handover": 3}})
    whole = run_local(study, tiny_root, tmp_path / "run", Silent())
    assert set(whole.personal) == set(whole.sites) and len(whole.manifest["metrics"]["test"]) == 3
    for site in whole.sites:
        here = load_super_model(tmp_path / "run" / "sites" / site / "supermodel")
        assert site in here.personal and len(here.personal) == 2 and here.sites == whole.sites
        elsewhere = set(whole.sites) - set(here.personal)
        assert here.manifest["elsewhere"] == [*elsewhere] and "elsewhere" not in whole.manifest
        images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
        predictors = [Predictor(each, Compute(torch.device("cpu"))) for each in (here, whole)]
        one, other = (each.selector_probabilities(images, "trained", elsewhere=True) for each in predictors)
        assert torch.equal(one, other), "what is elsewhere keeps its probability"
        masked = predictors[0].selector_probabilities(images, "trained")
        assert bool((masked[:, [whole.sites.index(name) for name in elsewhere]] == 0).all())
        chosen = create_mode(predictors[0], SELECT, ModeOptions(gamma=0.0)).choose(torch.eye(3))
        assert [name in here.personal for name in whole.sites] == [name != "global" for name in chosen]
        weights = [name for name in Weighed.sent[site] if name.startswith("personal/")]
        assert sorted(weights) == sorted(f"personal/{name}" for name in here.personal), "each was sent once"
        row = dict(zip(whole.manifest["utility"]["experts"], whole.manifest["utility"]["dice"][site], strict=True))
        assert {name for name, dice in row.items() if dice is not None} == {"global", *here.personal}
        assert all(torch.equal(tensor, whole.personal[name][entry]) for name, state in here.personal.items()
                   for entry, tensor in state.items())
    save_super_model(whole, tmp_path / "supermodel")
    image = next((tiny_root / whole.sites[0] / "images").iterdir())
    partial = tmp_path / "run" / "sites" / whole.sites[0] / "supermodel"
    for folder in (tmp_path / "supermodel", partial):
        assert predict_paths(folder, [image], tmp_path / "masks" / folder.parent.name) == 0
