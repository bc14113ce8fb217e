"""The model card says what the super model's record holds, and that the rest is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest
from export_cases import saved, super_model_with
from super_models import random_super_model

from fedsuper.cli import main
from fedsuper.core.supermodel import SuperModel

MEASURED = {
    "metrics": {
        "rounds": 7,
        "validation": {"global": {"score": 0.8125, "round": 6.0}, "selector": {"score": 0.625, "round": 5.0}},
        "test": {"A": {"folder": {"disc": 0.9, "cup": 0.7, "mean": 0.8, "n": 12, "mean_low": 0.71, "mean_high": 0.88}}},
    },
    "provenance": {"samples": {"A": 31, "B": 17}, "seed": 3, "created": "2026-01-02T03:04:05+00:00"},
    "versions": {"torch": "9.8.7"},
    "gamma_curve": [{"gamma": 0.5, "dice": 0.456, "global_share": 0.25}],
}


def card_of(model: SuperModel, folder: Path, *options: str) -> str:
    saved(model, folder / "model")
    assert main(["export", str(folder / "model"), "--to", "card", "--out", str(folder / "out"), *options]) == 0
    assert [path.name for path in (folder / "out").iterdir()] == ["MODEL_CARD.md"]
    return (folder / "out" / "MODEL_CARD.md").read_text(encoding="utf-8")


def test_what_was_measured_is_told(tmp_path: Path) -> None:
    model = random_super_model(["A", "B"])
    model.manifest |= MEASURED
    card = card_of(model, tmp_path)
    for line in (
        "| site-1 | 31 | 12 | 0.900 | 0.700 | 0.800 | 0.710 to 0.880 |",
        "| site-2 | 17 | unknown | unknown | unknown | unknown | unknown |",
        "| global | 0.812 | 6 |",
        "| Accuracy on validation images | 0.625 |",
        "| 0.500 | 0.456 | 0.250 |",
        "| torch | 9.8.7 |",
        "| Rounds of training | 7 |",
        "- No score on test images is recorded for site-2.",
    ):
        assert line in card.splitlines()


def test_an_empty_record_gives_no_number(tmp_path: Path) -> None:
    model = random_super_model(["A", "B"])
    del model.manifest["gamma"]
    card = card_of(model, tmp_path)
    for line in (
        "| site-1 | unknown | unknown | unknown | unknown | unknown | unknown |",
        "| Trained | unknown |",
        "| Accuracy on validation images | unknown |",
        "| gamma | 0.9 (a default: the sites did not choose one) |",
        "How Dice changes with gamma is unknown.",
        "The versions it was trained with are unknown.",
    ):
        assert line in card.splitlines()
    assert "cannot tell" in card.split("## Images unlike any site")[1].split("##")[0]


def test_the_closed_form_selector_is_described(tmp_path: Path) -> None:
    model = super_model_with("expected-dice", tmp_path / "sites")
    card = card_of(model, tmp_path)
    assert "gate expected-dice" in card and "closed form" in card
    chosen = model.manifest["statistics"]
    assert f"| Accuracy on validation images | {chosen['accuracy']:.3f} |" in card
    assert "can tell" in card.split("## Images unlike any site")[1].split("##")[0]


@pytest.mark.parametrize("name", ["a|b", "<b>x</b>", "[x](http://y)", "`$(x)`"])
def test_a_name_cannot_break_the_page(name: str, tmp_path: Path) -> None:
    card = card_of(random_super_model([name, "B"]), tmp_path, "--name-sites")
    assert f"| {name} |" not in card and "<b>" not in card
    rows = [line for line in card.splitlines() if line.startswith("|") and "unknown | unknown" in line]
    assert {line.replace("\\|", "").count("|") for line in rows} == {8}
