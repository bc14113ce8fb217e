"""`personal: auto`: every site takes the best of its candidates, the more shared one where it is a tie."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rehearsal import Accidents, CrashError, rehearse, small_study

from fedsuper.config.reading import parse_study
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.methods.parts.own_choice import CANDIDATES, CHOOSING, LAST_LOOK, most_shared
from fedsuper.train.checkpoint import digest

STUDY = parse_study(small_study("fedsm").to_json() | {"fedsm": {"personal": "auto", "fine_tune": 2}})


@pytest.mark.parametrize(("dice", "taken"), [
    ([[0.8, 0.8, 0.8], [0.8, 0.8, 0.8], [0.8, 0.8, 0.8]], 0),  # all alike: the most shared
    ([[0.5, 0.6, 0.7], [0.9, 0.8, 0.9], [0.6, 0.6, 0.6]], 1),  # a clear lead
    ([[0.80, 0.90, 0.70], [0.95, 0.76, 0.72], [0.1, 0.1, 0.1]], 0),  # a lead by chance: one image
    ([[0.1, 0.1, 0.1], [0.80, 0.82, 0.84], [0.81, 0.83, 0.85]], 2),  # small, but the same on every image
    ([[0.4], [0.5], [0.6]], 2),  # one image: no error to speak of
])
def test_the_more_shared_of_what_is_as_good(dice: list[list[float]], taken: int) -> None:
    assert most_shared([torch.tensor(scores) for scores in dice]) == taken


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("choice") / "root"
    write_retina(folder, sites=3, images=36, size=48, difficulty="easy")
    return folder


def test_what_a_site_is_handed_and_why(root: Path, tmp_path: Path) -> None:
    outcome = rehearse(STUDY, root, tmp_path)
    whole, server = outcome.super_model, outcome.federation.server
    assert server is not None and whole.global_model is not None
    assert [phase.name for phase in outcome.federation.method.phases()][1:] == [LAST_LOOK, CHOOSING]
    assert set(whole.manifest["chosen"]) == set(whole.sites)
    for site, told in whole.manifest["chosen"].items():
        assert set(told["dice"]) == set(CANDIDATES)
        assert told["dice"]["fine-tuned"] >= told["dice"]["personal"], "fine-tuning that does not help is not kept"
        expected = {"global": whole.global_model, "personal": server.best_models[f"personal/{site}"]}
        if told["taken"] in expected:
            assert digest(dict(whole.personal[site])) == digest(dict(expected[told["taken"]]))
    plain = rehearse(small_study("fedsm"), root, tmp_path / "plain")
    assert plain.bits["global"] == outcome.bits["global"], "training itself is FedSM's"


def test_a_run_that_breaks_while_choosing_goes_on_with_the_same_bits(root: Path, tmp_path: Path) -> None:
    unbroken = rehearse(STUDY, root, tmp_path / "a")
    with pytest.raises(CrashError):
        rehearse(STUDY, root, tmp_path / "b", Accidents(crash=4))
    resumed = rehearse(STUDY, root, tmp_path / "b", resume=True)
    assert resumed.bits == unbroken.bits
    assert resumed.super_model.manifest["chosen"] == unbroken.super_model.manifest["chosen"]


def test_a_site_that_misses_the_choice_keeps_its_personalized_model(root: Path, tmp_path: Path) -> None:
    outcome = rehearse(STUDY, root, tmp_path, Accidents(lost={4: "site-2"}))
    whole, server = outcome.super_model, outcome.federation.server
    assert server is not None and set(whole.manifest["chosen"]) == {"site-1", "site-3"}
    assert digest(dict(whole.personal["site-2"])) == digest(dict(server.best_models["personal/site-2"]))
