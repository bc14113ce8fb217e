"""`fedsuper infer`: a super model at work at every site of a federation, and what the sites may tell of it."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsuper.evaluation.text_tables import text_table
from fedsuper.federation.serving.held_models import identity_of
from fedsuper.files import atomic_write_text
from fedsuper.inference.artifact import load_super_model
from fedsuper.inference.modes.base import ModeOptions, create_mode
from fedsuper.inference.predictor import Predictor

if TYPE_CHECKING:
    from fedsuper.engines.flare.launch.serving import Engine

MATRIX = "matrix.csv"


def infer(
    super_model: Path,
    data_root: Path,
    out: Path,
    engine: Engine = "sim",
    mode: str | None = None,
    gamma: float | None = None,
    vote: str = "case",
    keep_gates: bool = False,
    matrix: bool = False,
    seconds: float = 3600,
    threads: int | None = None,
    gpus: str | None = None,
    kit: Path | None = None,
) -> dict[str, Any]:
    """Every site segments its own images, or with `matrix` scores every model on them; what the sites told."""
    from fedsuper.engines.flare.inference_recipe import EvaluationRecipe, InferenceRecipe, ServingRecipe
    from fedsuper.engines.flare.launch.serving import serve

    identity = identity_of(super_model)
    if not matrix:  # a mode this super model cannot do is told here, not by every site
        create_mode(Predictor(load_super_model(super_model)), mode, ModeOptions(gamma=gamma, vote=vote))
    recipe: ServingRecipe
    if matrix:
        recipe = EvaluationRecipe(seconds=seconds, supermodel=identity)
    else:
        recipe = InferenceRecipe(mode, gamma, vote, keep_gates, seconds, identity)
    told = serve(engine, recipe, super_model, data_root, out, sys.stderr, threads, gpus, kit)
    if matrix:
        atomic_write_text(Path(out) / MATRIX, _csv(matrix_rows(told)))
    return told


def table(told: dict[str, Any]) -> str:
    """What the sites told, for a terminal; sites that failed are named below."""
    if told["request"]["task"] == "score":
        head, *rows = matrix_rows(told)
    else:
        head = ["site", "images", "models", "confidence", "to review", "failed", "Dice", "seconds"]
        rows = [[site, *_cells(summary)] for site, summary in told["sites"].items()]
    failed = [f"{site}: {reason}" for site, reason in told["failed"].items()]
    return "\n".join([text_table(head, rows), *failed])


def matrix_rows(told: dict[str, Any]) -> list[list[str]]:
    """Models down, sites across: mean Dice; empty where a site withheld it."""
    sites = list(told["sites"])
    models = dict.fromkeys(name for site in sites for name in told["sites"][site]["models"] or {})
    rows = [["model", *sites]]
    for model in models:
        scores = [(told["sites"][site]["models"] or {}).get(model) for site in sites]
        rows.append([model, *("" if score is None else f"{score['mean']:.4f}" for score in scores)])
    return rows


def _cells(summary: dict[str, Any]) -> list[str]:
    if summary["images"] is None:
        return ["under 5 patients", *[""] * 5, f"{summary['seconds']:.0f}"]
    shares = ", ".join(f"{model} {share:.0%}" for model, share in summary["shares"].items())
    confidence = "" if summary["confidence"] is None else f"{summary['confidence']:.3f}"
    counts = ["a few" if summary[key] is None else str(summary[key]) for key in ("review", "failed")]
    dice = f"{summary['dice']['mean']:.4f}" if summary["dice"] else ""
    return [str(summary["images"]), shares, confidence, *counts, dice, f"{summary['seconds']:.0f}"]


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
