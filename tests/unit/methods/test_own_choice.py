"""`personal: auto`: every site takes one of four models, by what all sites saw."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rehearsal import Accidents, CrashError, rehearse, small_study
from toy import MakeToy, samples

from fedsuper.config.reading import parse_study
from fedsuper.core.aggregate import weighted_mean
from fedsuper.core.state import State
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.federation.manifest import manifest_for
from fedsuper.methods.parts.fine_tuned import fine_tuned
from fedsuper.methods.parts.own_choice import CANDIDATES, CHOOSING, FIGURES, LAST_LOOK, TRYING, choices, patient_dice
from fedsuper.methods.protocol.role import PERSONAL
from fedsuper.studies.personal.hospitals import write_hospitals
from fedsuper.train.checkpoint import digest

STUDY = parse_study(small_study("fedsm").to_json() | {"fedsm": {"personal": "auto", "fine_tune": 2}})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("choice") / "root"
    write_retina(folder, sites=3, images=36, size=48, difficulty="easy")
    return folder


def test_what_a_site_is_handed_and_why(root: Path, tmp_path: Path) -> None:
    outcome = rehearse(STUDY, root, tmp_path)
    whole, server = outcome.super_model, outcome.federation.server
    assert server is not None and whole.global_model is not None
    assert [phase.name for phase in outcome.federation.method.phases()][1:] == [LAST_LOOK, TRYING, CHOOSING]
    assert set(whole.manifest["chosen"]) == set(whole.sites)
    for site, told in whole.manifest["chosen"].items():
        assert set(told["dice"]) == set(CANDIDATES)
        assert told["taken"] == CANDIDATES[choices(server)[site]] and told["why"]
        last = server.history[STUDY.rounds]["sites"][site]["val/personal"]  # as the round of the last look saw it
        assert told["dice"][PERSONAL] == pytest.approx(last), "judged by a model that was not picked by these images"
        expected = {"global": whole.global_model, "personal": server.best_models[f"personal/{site}"]}
        if told["taken"] in expected:
            assert digest(dict(whole.personal[site])) == digest(dict(expected[told["taken"]]))
    assert set(manifest_for("site-1", whole.manifest)["chosen"]) == {"site-1"}, "others' figures are not for a site"
    plain = rehearse(small_study("fedsm"), root, tmp_path / "plain")
    assert plain.bits["global"] == outcome.bits["global"], "training itself is FedSM's"


def test_a_run_that_breaks_while_choosing_goes_on_with_the_same_bits(root: Path, tmp_path: Path) -> None:
    unbroken = rehearse(STUDY, root, tmp_path / "a")
    for at in (4, 5):
        with pytest.raises(CrashError):
            rehearse(STUDY, root, tmp_path / f"b{at}", Accidents(crash=at))
        resumed = rehearse(STUDY, root, tmp_path / f"b{at}", resume=True)
        assert resumed.bits == unbroken.bits
        assert resumed.super_model.manifest["chosen"] == unbroken.super_model.manifest["chosen"]


@pytest.mark.parametrize("number", [4, 5])
def test_a_site_that_misses_the_choice_keeps_its_personalized_model(root: Path, tmp_path: Path, number: int) -> None:
    outcome = rehearse(STUDY, root, tmp_path, Accidents(lost={number: "site-2"}))
    whole, server = outcome.super_model, outcome.federation.server
    assert server is not None and set(whole.manifest["chosen"]) == {"site-1", "site-3"}
    assert digest(dict(whole.personal["site-2"])) == digest(dict(server.best_models["personal/site-2"]))


def test_a_site_of_few_patients_tells_nothing_and_takes_what_serves_the_others(tmp_path: Path) -> None:
    write_hospitals(tmp_path / "root", seed=0, images=60, test=2, sites=3)  # 4, 8 and 3 to validate on
    study = parse_study(STUDY.to_json() | {"privacy": {"minimum": 4}})
    outcome = rehearse(study, tmp_path / "root", tmp_path)
    whole, server = outcome.super_model, outcome.federation.server
    assert server is not None
    told = {site for site in server.sites if f"{FIGURES}/{site}" in server.models}
    assert told == {"site-1", "site-2"} and set(whole.manifest["chosen"]) == set(server.sites)
    quiet = [whole.manifest["chosen"][site] for site in server.sites if site not in told]
    assert all(one["why"] == "serves the other sites best" and not one["dice"] for one in quiet)


def test_fine_tuning_is_the_mean_of_the_later_epochs_and_sees_no_validation_image(
    toy: MakeToy, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = toy("softpull", lr=0.05).rounds(1)
    site = federation.site("site-1")
    start, seen, stored = site.received[PERSONAL], [], set(site.store.models)

    def after(epochs: int) -> State:
        learner = site.learner(PERSONAL, start)
        site.fit([learner], epochs, "fine-tuned")
        return learner.state()

    seen = [after(epochs) for epochs in (3, 4, 5)]
    site.losses.clear()
    monkeypatch.setattr(site, "val", samples(99, 2))
    tuned = fine_tuned(site, start, 5)
    expected = weighted_mean(seen, [1.0] * 3)
    for name in expected:
        torch.testing.assert_close(tuned[name], expected[name])
    assert set(site.store.models) == stored and not site.losses
    monkeypatch.setattr(site, "val", samples(7, 9))
    assert digest(fine_tuned(site, start, 5)) == digest(tuned)


def test_the_images_of_a_patient_count_once(toy: MakeToy, monkeypatch: pytest.MonkeyPatch) -> None:
    site = toy("softpull").rounds(1).site("site-0")
    site.val.cases[:] = ["a", "b", "a", *["c"] * (len(site.val) - 3)]
    dice = torch.tensor([0.2, 0.5, 0.4, *[0.9] * (len(site.val) - 3)])
    monkeypatch.setattr("fedsuper.methods.parts.own_choice.image_dice", lambda *_: dice)
    torch.testing.assert_close(patient_dice(site, {}), torch.tensor([0.3, 0.5, 0.9]))
