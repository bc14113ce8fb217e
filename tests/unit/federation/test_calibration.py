"""The closed-form selector's way through a federation: who sends what, what comes of it, what happens without it."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.core.calibration import REVIEW_BELOW
from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.metrics import dice_scores
from fedsuper.core.mode import GLOBAL, SELECT
from fedsuper.core.supermodel import SuperModel
from fedsuper.core.validated.selection_choice import TIE, Selection
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.engines.in_process import LocalExchange, sites_of
from fedsuper.federation.completion.calibration import SUMS
from fedsuper.federation.messages import CALIBRATE, HANDOVER, TRAIN, Message, SiteFailure
from fedsuper.federation.progress import Progress
from fedsuper.federation.server_loop import Federation
from fedsuper.federation.site_data import SiteData
from fedsuper.federation.site_worker import SiteWorker
from fedsuper.inference.artifact import load_super_model
from fedsuper.inference.gamma import batch_of
from fedsuper.inference.masks.mask_features import PER_REGION
from fedsuper.inference.modes.base import ModeOptions, create_mode
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.closed_form import discriminant_of, sums_of
from fedsuper.inference.selection.familiarity import Familiarity, familiarity
from fedsuper.inference.selection.site_statistics import case_numbers, features_of
from fedsuper.inference.slice_batch import SliceBatch

pytestmark = pytest.mark.slow
SMALL: dict[str, Any] = {
    "method": "fedsm", "rounds": 1, "image_size": 32, "optimizer": {"lr": 0.01},
    "model": {"name": "plain-unet", "channels": [4, 8], "norm": "batch"},
}


class Wire(LocalExchange):
    """The in-process exchange that remembers what passed, and loses the answers of `deaf` sites to `losing`."""

    def __init__(self, workers: dict[str, SiteWorker], deaf: set[str], losing: str) -> None:
        super().__init__(workers, threads=1)
        self.deaf = deaf
        self.losing = losing
        self.up: list[tuple[str, str, Message]] = []

    def __call__(self, task: str, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | SiteFailure]:
        replies = super().__call__(task, messages, timeout)
        for site in replies:
            if task == self.losing and site in self.deaf:
                replies[site] = SiteFailure("timed out")
        self.up += [(task, site, reply) for site, reply in replies.items() if isinstance(reply, Message)]
        return replies


def federate(
    root: Path, folder: Path, study: Study, deaf: set[str] | None = None, losing: str = HANDOVER
) -> tuple[SuperModel, Wire, str]:
    workers = {site: SiteWorker(site, root, folder / site) for site in sites_of(study, root)}
    wire, shown = Wire(workers, deaf or set(), losing), io.StringIO()
    return Federation(study, wire, folder / "server", Progress("run", None, shown)).run(), wire, shown.getvalue()


def closed_form(**more: Any) -> Study:
    return parse_study({**SMALL, "selector": {"kind": "statistics", **more}})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calibration") / "root"
    write_retina(folder, sites=3, images=90, size=48, difficulty="easy")
    return folder


@pytest.fixture(scope="module")
def run(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[SuperModel, Wire, Path]:
    folder = tmp_path_factory.mktemp("run")
    whole, wire, _ = federate(root, folder, closed_form(gate="expected-dice"))
    return whole, wire, folder


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
    best = max(told["dice"].values())
    assert told["dice"][f"{told['kind']}/{told['gate']}"] >= best - TIE
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
