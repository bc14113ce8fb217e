"""A hospital outside: a few labels beat every mode without labels, and its images find their expert."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from fedsuper.cli import main
from fedsuper.config.reading import parse_study
from fedsuper.core.metrics import dice_scores
from fedsuper.core.state import State
from fedsuper.data.prepared.samples import Samples
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.engines.in_process import run_local
from fedsuper.errors import FedSuperError
from fedsuper.federation.progress import Silent
from fedsuper.inference.artifact import load_super_model, save_super_model
from fedsuper.inference.modes.base import ModeOptions, create_mode
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.slice_batch import SliceBatch
from fedsuper.studies.adaptation.adapt import adapt
from fedsuper.studies.adaptation.fine_tune import CHECK_STEPS, AveragedLearner, FineTuning, worth_leaving
from fedsuper.studies.adaptation.images import labeled_samples, read_site
from fedsuper.studies.adaptation.starts import EVEN, SELECTOR, starting_points
from fedsuper.studies.adaptation.suggest import spread_out, suggest
from fedsuper.train.learner import Batch

STUDY = {
    "method": "fedsm", "rounds": 4, "image_size": 32, "optimizer": {"lr": 0.01},
    "model": {"name": "plain-unet", "channels": [8, 16], "norm": "instance"},
}
LABELS = 5
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A federation of three, its super model, and a hospital `new` with labels for five of its images."""
    folder = tmp_path_factory.mktemp("outside")
    write_retina(folder / "root", sites=3, images=72, size=48, outside=True, difficulty="easy")
    save_super_model(run_local(parse_study(STUDY), folder / "root", folder / "run", Silent()), folder / "supermodel")
    source = next(path for path in (folder / "root-outside").iterdir() if path.is_dir())
    shutil.copytree(source, folder / "all" / "new")
    shutil.copytree(source, folder / "few" / "new")
    for label in sorted((folder / "few" / "new" / "labels").iterdir())[LABELS:]:
        label.unlink()
    return folder


def unlabeled_dice(predictor: Predictor, place: Path, mode: str) -> float:
    """Dice of a mode on the hospital's images that were not labeled for the adaptation."""
    samples: Samples = labeled_samples(predictor, read_site(predictor, place / "all" / "new"))
    batch = SliceBatch(predictor, list(torch.split(samples.images[LABELS:], 1)))
    masks = create_mode(predictor, mode, ModeOptions()).predict(batch).probabilities > 0.5
    return float(dice_scores(masks, samples.masks[LABELS:]).mean())


def test_five_labels_beat_every_mode_without_labels(place: Path) -> None:
    before = load_super_model(place / "supermodel")
    after, fitted, site = adapt(before, place / "few" / "new", steps=40)
    assert len(site.labeled()) == LABELS and fitted.after > fitted.before
    label_free = {mode: unlabeled_dice(Predictor(before), place, mode) for mode in ("global", "ensemble", "select")}
    own = unlabeled_dice(Predictor(after), place, "site:new")
    assert own > max(label_free.values()), (own, label_free)
    chosen = create_mode(Predictor(after), "select").predict(SliceBatch(Predictor(after), [site.slices[-1]])).chosen
    assert chosen == ["new"], "the selector knows the hospital by its sums alone"
    assert after.manifest["adapted"]["new"]["labels"] == LABELS and before.sites == after.sites[:-1]


def test_the_same_seed_gives_the_same_expert(place: Path) -> None:
    super_model = load_super_model(place / "supermodel")
    one, other = (adapt(super_model, place / "few" / "new", steps=20, seed=3)[0].personal["new"] for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(("other", "found"), [
    ([[0.0, 0.8], [0.0, 0.8], [0.0, 0.8]], ("even", 1)),  # as good: the usual
    ([[0.0, 0.9], [0.0, 0.9], [0.0, 0.7]], ("even", 1)),  # a gain by chance: one patient lost by it
    ([[0.0, 0.85], [0.0, 0.86], [0.0, 0.84]], ("global", 1)),  # small, but with every patient
    ([[0.9, 0.0], [0.9, 0.0], [0.9, 0.0]], ("global", 0)),  # training only spoils it
])
def test_the_usual_recipe_is_left_for_a_sure_gain_alone(other: list[list[float]], found: tuple[str, int]) -> None:
    curves = {"even": torch.tensor([[0.5, 0.8]] * 3), "global": torch.tensor(other)}
    assert worth_leaving(curves, "even") == found
    assert worth_leaving({name: table[:2] for name, table in curves.items()}, "even") == ("even", 1), "two patients"


def test_every_step_sees_as_many_images(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five labels and batches of four: no batch of a single image, whose jolt the model would end on."""
    predictor = Predictor(load_super_model(place / "supermodel"))
    samples = labeled_samples(predictor, read_site(predictor, place / "few" / "new"))
    seen: list[int] = []

    def step(learner: AveragedLearner, batch: Batch) -> torch.Tensor:
        seen.append(len(batch.images))
        return stepped(learner, batch)

    stepped = AveragedLearner.step
    monkeypatch.setattr(AveragedLearner, "step", step)
    FineTuning(predictor, samples, 1, 0).train(starting_points(predictor, samples.images)[EVEN], samples, 1, "all")
    assert seen == [LABELS] * CHECK_STEPS


def test_the_starts_are_the_models_and_their_mixtures(place: Path) -> None:
    predictor = Predictor(load_super_model(place / "supermodel"))
    starts = starting_points(predictor, read_site(predictor, place / "few" / "new").all())
    assert set(starts) == {"global", "site-1", "site-2", "site-3", EVEN, SELECTOR}
    mean: State = {name: torch.stack([state[name] for state in predictor.experts.values()]).mean(dim=0)
                   for name in starts[EVEN] if starts[EVEN][name].is_floating_point()}
    for name, tensor in mean.items():
        torch.testing.assert_close(starts[EVEN][name], tensor)


def test_suggestions_are_unlabeled_and_unlike_one_another(place: Path) -> None:
    predictor = Predictor(load_super_model(place / "supermodel"))
    site = read_site(predictor, place / "few" / "new")
    found = suggest(predictor, site, 4)
    names = [each.name for each in found]
    assert len(set(names)) == 4 and not set(names) & {item.name for item in site.labeled()}
    worth = torch.tensor([1.0, 0.99, 0.5, 0.4], dtype=torch.float64)
    twins = torch.tensor([[0.0, 0.0], [0.0, 0.0], [5.0, 0.0], [0.0, 5.0]], dtype=torch.float64)
    assert spread_out(worth, twins, 3) == [0, 2, 3], "the twin of the first is passed over"


def test_too_few_labels_say_what_to_do(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "few" / "new", tmp_path / "new")
    for label in sorted((tmp_path / "new" / "labels").iterdir())[1:]:
        label.unlink()
    with pytest.raises(FedSuperError, match="at least 2 are needed .* --suggest"):
        adapt(load_super_model(place / "supermodel"), tmp_path / "new")


def test_a_name_that_is_taken_is_told_before_any_work(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("fedsuper.studies.adaptation.adapt.read_site", lambda *_: pytest.fail("images were read"))
    asked = ["adapt", str(place / "supermodel"), "--data", str(place / "root" / "site-1"), "--out", str(tmp_path / "x")]
    assert main(asked) == 2 and not (tmp_path / "x").exists()
    assert "site-1: this super model has a site of that name" in capsys.readouterr().err


def test_the_commands(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = str(place / "supermodel"), str(place / "few" / "new")
    assert main(["adapt", model, "--data", data, "--suggest", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert main(["adapt", model, "--data", data, "--out", str(tmp_path / "adapted"), "--steps", "10"]) == 0
    assert "--mode site:new" in capsys.readouterr().out
    assert load_super_model(tmp_path / "adapted").sites[-1] == "new"
    assert main(["selector", "add", model, "--data", data, "--out", str(tmp_path / "joined")]) == 0
    assert main(["selector", "remove", str(tmp_path / "joined"), "--site", "new", "--out", str(tmp_path / "left")]) == 0
    assert load_super_model(tmp_path / "left").sites == ["site-1", "site-2", "site-3"]
    assert main(["selector", "remove", model, "--out", str(tmp_path / "x")]) == 2
    assert "--site NAME is missing" in capsys.readouterr().err
