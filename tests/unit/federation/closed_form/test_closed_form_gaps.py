"""The closed-form selector where something is missing or added: answers, patients, noise, another selector."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from closed_form import SMALL, closed_form, federate

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.metrics import dice_scores
from fedsuper.core.mode import GLOBAL, SELECT
from fedsuper.core.validated.selection_choice import Selection
from fedsuper.core.validated.usual_distance import REVIEW_BELOW
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.federation.completion.calibration import SUMS
from fedsuper.federation.messages import CALIBRATE, HANDOVER
from fedsuper.federation.site_data import SiteData
from fedsuper.inference.gamma import batch_of
from fedsuper.inference.masks.mask_features import PER_REGION
from fedsuper.inference.modes.base import ModeOptions, create_mode
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.closed_form import sums_of
from fedsuper.inference.selection.familiarity import familiarity
from fedsuper.inference.selection.site_statistics import case_numbers
from fedsuper.inference.slice_batch import SliceBatch

pytestmark = pytest.mark.slow


def test_a_trained_selector_gets_familiarity_and_keeps_its_bits(root: Path, tmp_path: Path) -> None:
    study = parse_study({**SMALL, "selector": {"kind": "trained", "gate": "threshold"}})
    plain, _, _ = federate(root, tmp_path / "a", study, {"site-1", "site-2", "site-3"}, HANDOVER)
    whole, wire, _ = federate(root, tmp_path / "b", study)
    assert plain.selector is not None and whole.selector is not None
    assert all(torch.equal(whole.selector[name], tensor) for name, tensor in plain.selector.items())
    images = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert familiarity(plain, images) is None and "statistics" not in plain.extras
    told = familiarity(whole, images)
    assert told is not None and bool((told < REVIEW_BELOW).all())
    assert not any("utility" in reply.info.get("calibration", {}) for _, _, reply in wire.up), "no matrix is needed"


def test_a_site_that_does_not_answer_stays_unknown(root: Path, tmp_path: Path) -> None:
    whole, _, _ = federate(root, tmp_path, closed_form(), {"site-2"})
    q = Predictor(whole).selector_probabilities(torch.randn(6, 3, 32, 32))
    assert bool((q[:, 1] == 0).all()) and whole.mode == SELECT


def test_without_any_sums_the_super_model_predicts_globally_and_says_so(root: Path, tmp_path: Path) -> None:
    whole, _, shown = federate(root, tmp_path, closed_form(), {"site-1", "site-2", "site-3"})
    assert whole.mode == GLOBAL == whole.manifest["mode"] and "no site sent feature sums" in shown
    create_mode(Predictor(whole)).predict(SliceBatch(Predictor(whole), [torch.randn(1, 3, 32, 32)]))


def test_without_counts_it_selects_with_cautious_settings(root: Path, tmp_path: Path) -> None:
    whole, _, _ = federate(root, tmp_path, closed_form(), {"site-1", "site-2", "site-3"}, CALIBRATE)
    assert whole.manifest["statistics"]["shrinkage"] == 0.1 and whole.manifest["gamma"] is None
    assert familiarity(whole, torch.randn(1, 3, 32, 32)) is None
    assert Predictor(whole).selector_probabilities(torch.randn(2, 3, 32, 32)).shape == (2, 3)


def test_a_site_of_few_patients_sends_nothing(tmp_path: Path) -> None:
    write_retina(tmp_path / "root", sites=2, images=30, size=48, difficulty="easy")
    small = tmp_path / "root" / "site-1"
    names = sorted(path.stem for path in (small / "images").iterdir())
    parts = {"train": names[:-2], "val": names[-2:-1], "test": names[-1:]}
    (small / "splits.json").write_text(json.dumps(parts))
    cases = [f"{name},{'ab'[index % 2]}" for index, name in enumerate(parts["train"])]  # two patients
    (small / "cases.csv").write_text("\n".join(["name,case", *cases, f"{names[-2]},c", f"{names[-1]},d", ""]))
    whole, wire, _ = federate(tmp_path / "root", tmp_path / "run", closed_form())
    assert small.name not in {site for _, site, reply in wire.up if SUMS in reply.models}
    sums = sums_of(whole)
    assert sums is not None and [each.count > 0 for each in sums].count(True) == 1


def test_noise_on_the_sums_is_stated_and_never_the_same(root: Path, tmp_path: Path) -> None:
    one, _, _ = federate(root, tmp_path / "a", closed_form(noise=2.0))
    other, _, _ = federate(root, tmp_path / "b", closed_form(noise=2.0))
    assert one.manifest["statistics"]["epsilon"] == pytest.approx(1.9, abs=0.3)
    assert one.selector is not None and other.selector is not None
    assert not torch.equal(one.selector["total"], other.selector["total"])


def test_it_costs_a_twentieth_of_the_trained_selectors_traffic_or_less() -> None:
    from fedsuper.data.task import Task
    from fedsuper.methods.protocol.nets import first_selector
    from fedsuper.models.build import build_segmentation
    from fedsuper.models.features import ImageFeatures

    study, sites = Study(), 6
    task = Task.from_json({"task": "retina", "channels": 3, "regions": {"disc": [1, 2], "cup": [2]}})
    trained = sum(tensor.nbytes for tensor in first_selector(study, task, sites).values()) * 2 * int(study.rounds)
    net = ImageFeatures(build_segmentation(study.model, 3, 2))
    state = FeatureSums.of(net(torch.randn(2, 3, 64, 64)).detach()).to_state()
    closed = sum(tensor.nbytes for tensor in state.values()) * (1 + sites)
    assert closed * 20 <= trained


def test_patients_are_numbered_as_they_appear() -> None:
    assert case_numbers(["b", "a", "b", "c"]) == [0, 1, 0, 2]
    assert asdict(FeatureSums.nothing(2))["count"] == 0


def test_the_sites_choose_selector_and_gate_by_dice_and_what_masks_need(root: Path, tmp_path: Path) -> None:
    whole, wire, _ = federate(root, tmp_path, parse_study(SMALL))
    told, manifest = whole.manifest["selection"], whole.manifest
    assert set(told["dice"]) == {f"{kind}/{gate}" for kind in ("trained", "statistics", "both")
                                 for gate in ("threshold", "expected-dice")}
    assert told["best"] == f"{told['kind']}/{told['gate']}" or told["lead"] <= told["error"]
    assert manifest["gamma"] == manifest["selectors"][told["kind"]]["gamma"]
    assert manifest["utility"]["temperature"] == manifest["selectors"][told["kind"]]["temperature"]
    # What every threshold was said to be worth is what the mode reaches on the same images.
    predictor = Predictor(whole)
    for kind in ("trained", "statistics", "both"):
        scores = []
        for site in whole.sites:
            val = SiteData(site, root, tmp_path / site).samples(predictor.study, "val")
            mode = create_mode(predictor, SELECT, ModeOptions(selection=Selection(kind, "threshold")))
            outcome = mode.predict(batch_of(predictor, val))
            scores.append(float(dice_scores(outcome.probabilities > 0.5, val.masks).mean()))
        assert told["dice"][f"{kind}/threshold"] == pytest.approx(sum(scores) / 3, abs=1e-6)
    assert isinstance(manifest["one_piece"], list) and manifest["quality"]["sites"] == 3
    assert len(manifest["quality"]["weights"]) == 2 * PER_REGION
    sums = [reply.models["quality-sums"] for _, _, reply in wire.up if "quality-sums" in reply.models]
    assert len(sums) == 3 and all(state["total"].shape == (2 * PER_REGION + 1,) for state in sums)
