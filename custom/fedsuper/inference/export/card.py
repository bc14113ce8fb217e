"""The model card: what a super model is, what was measured of it, what it is for and what nobody knows.

Every number is read from the super model's own record; what the record lacks is said to be unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedsuper import __version__
from fedsuper.core.supermodel import SELECTOR
from fedsuper.inference.export.card_measures import calibration, familiarity, privacy, sites
from fedsuper.inference.export.card_text import INTENDED_USE, LIMITS, UNKNOWN, bullets, plain, table
from fedsuper.inference.export.chooser import gate_name
from fedsuper.inference.export.parts import Parts

CARD = "MODEL_CARD.md"


def model_card(parts: Parts, files: Mapping[str, str], digests: Mapping[str, str]) -> str:
    """Markdown; `files` and `digests` are the exported ones, none where the card is written alone."""
    title = f"# Model card: {plain(parts.predictor.task.name)}, trained by {plain(parts.predictor.study.method)}"
    chapters = {
        "What it is": _facts(parts),
        "Intended use": bullets(INTENDED_USE),
        "Limits": bullets([*LIMITS, *_own_limits(parts)]),
        "Sites and results": sites(parts),
        "Calibration of the choice": calibration(parts),
        "Images unlike any site": familiarity(parts),
        "Privacy": privacy(parts),
        "Versions": _versions(parts),
        "Files": _files(parts, files, digests),
    }
    body = "\n\n".join(f"## {heading}\n\n{text}" for heading, text in chapters.items())
    told = f"Written by `fedsuper export` {__version__} from the super model's own record."
    return f"{title}\n\n{told} What it does not hold is {UNKNOWN}.\n\n{body}\n"


def _facts(parts: Parts) -> str:
    predictor, manifest = parts.predictor, parts.manifest
    study, preprocess = predictor.study, predictor.preprocess
    regions = [f"{plain(name)} (label values {', '.join(map(str, values))})"
               for name, values in predictor.task.regions.items()]
    provenance = manifest.get("provenance", {})
    return table(("", ""), [
        ("Segments", "; ".join(regions)),
        ("Method", f"{plain(study.method)} ({plain(manifest.get('paper'))})"),
        ("Net", f"{plain(study.model.name)}, {predictor.channels} input planes of {study.image_size} x "
                f"{study.image_size} pixels"),
        ("Preprocessing", f"{preprocess.normalize} over each {preprocess.scope}, {preprocess.slices} slice(s)"),
        ("Models", ", ".join(plain(parts.public_name(name)) for name in parts.experts)),
        ("How a model is chosen", f"mode {predictor.super_model.mode}, gate {gate_name(predictor) or 'none'}"),
        ("Rounds of training", plain(manifest.get("metrics", {}).get("rounds"))),
        ("Seed", plain(provenance.get("seed"))),
        ("Trained", plain(provenance.get("created"))),
    ])


def _own_limits(parts: Parts) -> Iterable[str]:
    predictor = parts.predictor
    yield (f"Slices are resized to {predictor.study.image_size} x {predictor.study.image_size} pixels; structures "
           "thinner than a pixel there cannot be found.")
    tested = parts.manifest.get("metrics", {}).get("test", {})
    yield from (f"No score on test images is recorded for {plain(parts.public_name(site))}."
                for site in predictor.super_model.sites if site not in tested)


def _versions(parts: Parts) -> str:
    recorded: Mapping[str, str] = parts.manifest.get("versions", {})
    rows = [(plain(name), plain(version)) for name, version in recorded.items()]
    return table(("trained with", "version"), rows) if rows else f"The versions it was trained with are {UNKNOWN}."


def _files(parts: Parts, files: Mapping[str, str], digests: Mapping[str, str]) -> str:
    """SHA-256 of what was exported and of the super model's weights that it was made from."""
    rows: list[Sequence[Any]] = []
    entries: Mapping[str, Mapping[str, str]] = parts.manifest["files"]
    for name in [*parts.experts, *([SELECTOR] if SELECTOR in entries else [])]:
        source = entries.get(name) or entries.get(f"personal/{name}", {})
        file = files.get(name)
        exported = (f"`{file}`", f"`{digests[file]}`") if file else ("not exported", "")
        rows.append((plain(parts.public_name(name)), f"`{source.get('sha256', UNKNOWN)}`", *exported))
    return table(("model", "SHA-256 of its weights in the super model", "file", "SHA-256 of the file"), rows)
