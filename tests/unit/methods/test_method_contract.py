"""What every method owes: resume, absence, a federation of one, norm layers with and without buffers, no poison.

Parity between engines is the integration tests' part.
"""

from __future__ import annotations

import functools
import re
import shutil
from pathlib import Path

import pytest
import torch
from rehearsal import Accidents, CrashError, Outcome, rehearse, small_study

from fedsuper.config.reading import parse_study
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.inference.modes.base import ModeOptions, create_mode
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.slice_batch import SliceBatch
from fedsuper.methods import METHODS, create_method, method_class
from fedsuper.methods.protocol.phases import planned_rounds

FEDERATED = [name for name in METHODS if not method_class(name).pooled]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sites of twelve images."""
    folder = tmp_path_factory.mktemp("contract") / "root"
    write_retina(folder, sites=3, images=36, size=48, difficulty="easy")
    return folder


@pytest.fixture(scope="module")
def lone_root(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first site alone."""
    folder = tmp_path_factory.mktemp("lone") / "root"
    shutil.copytree(root / "site-1", folder / "site-1")
    shutil.copy(root / "dataset.json", folder / "dataset.json")
    return folder


@pytest.fixture(scope="module")
def unbroken(root: Path, tmp_path_factory: pytest.TempPathFactory):
    """The whole study without accidents, once per method and norm."""
    return functools.cache(
        lambda method, norm="instance": rehearse(small_study(method, norm), root, tmp_path_factory.mktemp("unbroken"))
    )


def assert_complete(outcome: Outcome) -> None:
    """The super model can predict, for every site, the way its method does."""
    super_model = outcome.super_model
    predictor = Predictor(super_model)
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    for site in super_model.sites:
        result = create_mode(predictor, None, ModeOptions(gamma=0.5, site=site)).predict(
            SliceBatch(predictor, [images])
        )
        assert result.probabilities.shape == (2, 2, 32, 32) and torch.isfinite(result.probabilities).all()


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["instance", "batch"])
@pytest.mark.parametrize("method", METHODS)
def test_the_super_model_is_complete_for_its_mode(method: str, norm: str, unbroken) -> None:
    outcome = unbroken(method, norm)
    assert_complete(outcome)
    for state in outcome.super_model.experts().values():
        assert all((tensor >= 0).all() for name, tensor in state.items() if name.endswith("running_var"))
        assert norm == "batch" or not any("running" in name for name in state)


@pytest.mark.parametrize("method", ["fedsm", "fedsm-extra", "fedsm-ensemble", "ft", "apfl", "iop-fl", "fedbn"])
def test_the_global_model_handed_over_is_fedavgs(method: str, unbroken) -> None:
    """What stands beside the global model does not touch it (FedBN: where there is no norm layer to keep)."""
    assert unbroken(method).bits["global"] == unbroken("fedavg").bits["global"]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_resumed_run_equals_an_unbroken_one_bit_for_bit(method: str, root: Path, tmp_path: Path, unbroken) -> None:
    study = small_study(method)
    last = planned_rounds(study, create_method(study).phases())
    with pytest.raises(CrashError):
        rehearse(study, root, tmp_path, Accidents(crash=last))
    resumed = rehearse(study, root, tmp_path, resume=True)
    assert resumed.bits == unbroken(method).bits
    assert resumed.federation.server.history == unbroken(method).federation.server.history


@pytest.mark.slow
@pytest.mark.parametrize("method", FEDERATED)
def test_a_lost_or_poisoned_answer_is_as_if_the_site_had_not_been_asked(
    method: str, root: Path, tmp_path: Path
) -> None:
    """One site comes late, another misses a round after it has trained for it: what they hold stays as it was."""
    study = small_study(method, "batch").model_copy(update={"rounds": 3})
    absent = rehearse(study, root, tmp_path / "absent", Accidents(unasked={1: "site-2", 2: "site-3"}))
    accidents = Accidents(lost={1: "site-2"}, poisoned={2: "site-3"})
    if method == "local":  # nothing travels that could be poisoned
        accidents = Accidents(lost={1: "site-2", 2: "site-3"})
    outcome = rehearse(study, root, tmp_path / "accidents", accidents)
    assert "site-2: left out of the round (timed out)" in outcome.notes
    assert method == "local" or re.search(r"site-3: left out of the round \(entry .* holds NaN", outcome.notes)
    assert outcome.bits == absent.bits
    assert_complete(outcome)
    stored = [
        sorted(path.name for path in (tmp_path / run / "sites" / "site-3").glob("state-*"))
        for run in ("absent", "accidents")
    ]
    assert stored[0] == stored[1], "the state of a round that was not counted is gone"


@pytest.mark.parametrize("method", ["fedavg", "fedbn", "scaffold"])
def test_an_answer_with_entries_missing_costs_its_site_the_round(method: str, root: Path, tmp_path: Path) -> None:
    study = small_study(method, "batch")
    absent = rehearse(study, root, tmp_path / "absent", Accidents(unasked={2: "site-3"}))
    outcome = rehearse(study, root, tmp_path / "cut", Accidents(cut={2: "site-3"}))
    assert re.search(r"site-3: left out of the round \(the update's entries differ .*missing", outcome.notes)
    assert outcome.bits == absent.bits


@pytest.mark.parametrize("method", METHODS)
def test_a_federation_of_one(method: str, lone_root: Path, tmp_path: Path) -> None:
    outcome = rehearse(small_study(method, "batch"), lone_root, tmp_path)
    assert_complete(outcome)
    assert len(outcome.super_model.sites) == 1


@pytest.mark.slow
@pytest.mark.parametrize("method", ["apfl", "per-fedavg", "feddg", "fedsm-ensemble"])
def test_half_precision_reaches_the_methods_with_gradients_of_their_own(
    method: str, root: Path, tmp_path: Path, unbroken
) -> None:
    half = rehearse(parse_study(small_study(method).to_json() | {"compute": {"amp": "fp16"}}), root, tmp_path)
    full = unbroken(method)
    for name, tensor in full.super_model.global_model.items():
        torch.testing.assert_close(half.super_model.global_model[name], tensor, rtol=0, atol=0.05)
    assert half.bits != full.bits


def test_methods_that_differ_only_in_what_sites_exchange_agree_when_there_is_one_site(
    lone_root: Path, tmp_path: Path
) -> None:
    runs = {
        name: rehearse(small_study(name), lone_root, tmp_path / name)
        for name in ("fedavg", "scaffold", "fedsm", "feddg")
    }
    states = {name: outcome.super_model.global_model for name, outcome in runs.items()}
    for name, state in states.items():
        for entry, tensor in state.items():
            torch.testing.assert_close(tensor, states["fedavg"][entry], rtol=1e-5, atol=1e-6, msg=f"{name} {entry}")
