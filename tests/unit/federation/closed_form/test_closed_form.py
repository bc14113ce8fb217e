"""The closed-form selector's way through a federation: who sends what, and what comes of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from closed_form import Wire

from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.mode import SELECT
from fedsuper.core.supermodel import SuperModel
from fedsuper.core.validated.usual_distance import REVIEW_BELOW
from fedsuper.federation.completion.calibration import SUMS
from fedsuper.federation.messages import CALIBRATE, HANDOVER, TRAIN
from fedsuper.federation.site_data import SiteData
from fedsuper.inference.artifact import load_super_model
from fedsuper.inference.modes.base import ModeOptions, create_mode
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.closed_form import discriminant_of, sums_of
from fedsuper.inference.selection.familiarity import Familiarity
from fedsuper.inference.selection.site_statistics import features_of
from fedsuper.inference.slice_batch import SliceBatch

pytestmark = pytest.mark.slow


def test_no_selector_travels_in_the_rounds_and_sums_travel_once(run: tuple[SuperModel, Wire, Path]) -> None:
    _, wire, _ = run
    assert all("selector" not in reply.models for task, _, reply in wire.up if task == TRAIN)
    with_sums = [(task, site) for task, site, reply in wire.up if SUMS in reply.models]
    assert with_sums == [(HANDOVER, f"site-{k}") for k in (1, 2, 3)]
    assert sum(task == CALIBRATE for task, _, _ in wire.up) == 9, "counts, gate, masks"


def test_counts_and_sums_say_nothing_of_a_single_image(run: tuple[SuperModel, Wire, Path], root: Path) -> None:
    _, wire, _ = run
    names = {path.stem for path in root.rglob("images/*")}
    for task, _, reply in wire.up:
        if task in (HANDOVER, CALIBRATE):
            assert not names & set(re.findall(r'"([^"]*)"', json.dumps(reply.info)))
            for state in reply.models.values():
                assert all(tensor.dim() == 0 or tensor.shape[0] == state["total"].shape[0] for tensor in state.values())


def test_the_sums_are_those_of_the_training_images(run: tuple[SuperModel, Wire, Path], root: Path) -> None:
    whole, _, folder = run
    predictor, sums = Predictor(whole), sums_of(whole)
    assert sums is not None
    for site, found in zip(whole.sites, sums, strict=True):
        train = SiteData(site, root, folder / site).samples(predictor.study, "train")
        expected = FeatureSums.of(features_of(whole, train.images, predictor.compute))
        assert found.count == expected.count
        torch.testing.assert_close(found.outer, expected.outer, rtol=1e-6, atol=1e-6)


def test_every_site_holds_the_same_super_model_as_the_server(run: tuple[SuperModel, Wire, Path]) -> None:
    whole, _, folder = run
    for site in whole.sites:
        kept = load_super_model(folder / site / "supermodel")
        assert kept.selector is not None and whole.selector is not None
        assert all(torch.equal(kept.selector[name], tensor) for name, tensor in whole.selector.items())
        assert kept.manifest["statistics"] == whole.manifest["statistics"] and "utility" in kept.manifest


def test_the_net_says_what_the_discriminant_says(run: tuple[SuperModel, Wire, Path]) -> None:
    whole, _, _ = run
    predictor, images = Predictor(whole), torch.randn(5, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    discriminant = discriminant_of(whole)
    assert discriminant is not None
    expected = discriminant.posterior(features_of(whole, images, predictor.compute))
    torch.testing.assert_close(predictor.selector_probabilities(images), expected, rtol=1e-4, atol=1e-6)


def test_it_names_sites_after_one_round_and_knows_its_own(
    run: tuple[SuperModel, Wire, Path], root: Path
) -> None:
    whole, _, folder = run
    predictor = Predictor(whole)
    judge = Familiarity.of(predictor)
    assert judge is not None and whole.mode == SELECT and whole.manifest["statistics"]["accuracy"] > 0.9
    right, flagged = [], []
    for label, site in enumerate(whole.sites):
        images = SiteData(site, root, folder / site).samples(predictor.study, "test").images
        right += (predictor.selector_probabilities(images).argmax(dim=1) == label).tolist()
        flagged += (judge.values(images) < REVIEW_BELOW).tolist()
    assert sum(right) / len(right) > 0.9
    assert sum(flagged) / len(flagged) < 0.25


def test_the_gate_follows_the_matrix_and_a_given_gamma_is_the_threshold(run: tuple[SuperModel, Wire, Path]) -> None:
    whole, _, _ = run
    predictor, images = Predictor(whole), torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    table = whole.manifest["utility"]
    assert table["experts"] == ["global", *whole.sites] and list(table["dice"]) == whole.sites
    assert min(table["images"].values()) > 0
    noise = create_mode(predictor, None, ModeOptions()).predict(SliceBatch(predictor, [images]))
    assert noise.chosen == ["global"] * 4, "white noise is unlike every site"
    never = create_mode(predictor, None, ModeOptions(gamma=0.0)).predict(SliceBatch(predictor, [images]))
    assert "global" not in never.chosen
