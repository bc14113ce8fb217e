"""Small run folders in the real formats, written by the product's own writers from made-up numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import yaml
from PIL import Image

from fedsuper.config.reading import parse_study
from fedsuper.core.supermodel import SuperModel
from fedsuper.evaluation.evaluate import ScoredImage
from fedsuper.evaluation.image_tables import Scored
from fedsuper.evaluation.results import write_results
from fedsuper.inference.artifact import save_super_model

SITES = ["amber", "birch", "cedar"]
TASK = {"task": "retina", "channels": 3, "regions": {"disc": [1, 2], "cup": [2]}}
LEVEL = {"centralized": 0.90, "local": 0.82, "fedavg": 0.86, "fedsm": 0.89}
IMAGES = 14
ROUNDS = 12


def write_data_root(folder: Path) -> Path:
    """A data root as far as scoring looks at it: the task."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dataset.json").write_text(json.dumps(TASK))
    return folder


def scored(method: str, seed: int, sites: Sequence[str] = SITES) -> Scored:
    """Scores near the method's level, images harder from site to site; FedSM's selector errs once a site."""
    rng = np.random.default_rng([seed, len(method)])
    rows = []
    for place, site in enumerate(sites):
        for number in range(IMAGES + place):
            level = LEVEL[method] - 0.02 * place + 0.01 * rng.standard_normal()
            seen_as = sites[(place + 1) % len(sites)] if number == 0 else site
            probabilities = {name: 0.9 if name == seen_as else 0.1 / (len(sites) - 1) for name in sites}
            select = method == "fedsm"
            chosen = {"fedsm": seen_as, "local": site}.get(method, "global")
            rows.append(
                ScoredImage(
                    site,
                    f"image{number:02d}",
                    f"case{number // 2}",
                    {"disc": min(level + 0.05, 1.0), "cup": level - 0.05},
                    chosen,
                    site if method != "centralized" else None,
                    0.7 if select else None,
                    probabilities if select else {},
                )
            )
    notes = {}
    if method == "local":
        notes["site_by_model"] = {a: {b: 0.85 if a == b else 0.4 for b in sites} for a in sites}
    return Scored(method, seed, rows, notes)


def history(method: str, sites: Sequence[str] = SITES, rounds: int = ROUNDS) -> list[dict]:
    """Validation scores that rise to the method's level; the second site misses round 3."""
    roles = {"fedsm": ("global", "personal", "selector"), "local": ("personal",)}.get(method, ("global",))
    members = ["centralized"] if method == "centralized" else list(sites)
    entries = []
    for number in range(1, rounds + 1):
        rise = LEVEL[method] * (1 - 0.6**number)
        metrics = {site: {f"val/{role}": rise - 0.01 * place for role in roles} for place, site in enumerate(members)}
        missing = [members[1]] if number == 3 and len(members) > 1 else []
        entries.append(
            {
                "round": number,
                "sites": {s: m for s, m in metrics.items() if s not in missing},
                "missing": missing,
                "scores": {},
            }
        )
    return entries


def write_super_model(folder: Path, method: str, seed: int = 0, sites: Sequence[str] = SITES) -> None:
    """A super model with one-number weights and a full manifest."""
    members = ["centralized"] if method == "centralized" else list(sites)
    state = {"w": torch.zeros(1)}
    manifest = {
        "method": method,
        "paper": "a paper",
        "gamma": None,
        "task": TASK,
        "history": history(method, sites),
        "study": parse_study({"method": method, "seed": seed, "rounds": ROUNDS}).to_json(),
        "versions": {"fedsuper": "0", "torch": "2"},
        "metrics": {"validation": {"global": {"score": LEVEL[method], "round": 9.0}}, "rounds": ROUNDS},
        "provenance": {
            "created": "2026-01-02T03:04:05+00:00",
            "seed": seed,
            "samples": {s: 20 + i for i, s in enumerate(members)},
        },
    }
    if method == "fedsm":
        manifest["gamma"] = 0.7
        manifest["gamma_curve"] = [
            {"gamma": g, "dice": 0.88 + 0.02 * g * (1 - g), "global_share": g**4} for g in (0.0, 0.5, 0.7, 0.9, 1.0)
        ]
    modes = {"fedsm": "select", "local": "own"}
    save_super_model(
        SuperModel(
            members,
            state,
            selector=state if method == "fedsm" else None,
            mode=modes.get(method, "global"),
            manifest=manifest,
        ),
        folder,
    )


def write_run(folder: Path, method: str, seed: int = 0, sites: Sequence[str] = SITES, examples: bool = False) -> Path:
    """What `fedsuper run` leaves."""
    write_results(folder, write_data_root(folder.parent / "data"), [scored(method, seed, sites)])
    write_super_model(folder / "supermodel", method, seed, sites)
    (folder / "study.yaml").write_text(yaml.safe_dump(parse_study({"method": method}).to_json()))
    if examples:
        write_fake_examples(folder / "examples", [method], sites)
    return folder


def write_comparison(
    folder: Path,
    methods: Sequence[str] = tuple(LEVEL),
    seeds: Sequence[int] = (0, 1),
    sites: Sequence[str] = SITES,
    examples: bool = True,
) -> Path:
    """What `fedsuper compare` leaves."""
    root = write_data_root(folder.parent / "data")
    write_results(folder, root, [scored(method, seed, sites) for method in methods for seed in seeds])
    for method in methods:
        for seed in seeds:
            write_super_model(folder / "runs" / method / f"seed-{seed}" / "supermodel", method, seed, sites)
    study = parse_study({"rounds": ROUNDS}).to_json()
    (folder / "compare.json").write_text(
        json.dumps({"data": str(root), "methods": list(methods), "seeds": list(seeds), "study": study})
    )
    if examples:
        write_fake_examples(folder / "examples", methods, sites)
    return folder


def write_fake_examples(folder: Path, methods: Sequence[str], sites: Sequence[str]) -> None:
    """A gray square with a disc and a cup per site; each method's disc is shifted a little further."""
    folder.mkdir(parents=True)
    y, x = np.mgrid[:48, :48]

    def save(name: str, array: np.ndarray) -> str:
        Image.fromarray(array).save(folder / name)
        return name

    def masks(stem: str, shift: int) -> dict[str, str]:
        distance = np.hypot(y - 24, x - 24 - shift)
        return {
            region: save(f"{stem}-{region}.png", ((distance < radius) * 255).astype(np.uint8))
            for region, radius in (("disc", 15), ("cup", 7))
        }

    examples = []
    for number, site in enumerate(sites):
        stem = f"{number:03d}"
        examples.append(
            {
                "site": site,
                "image": f"image{number:02d}",
                "place": "median",
                "size": [48, 48],
                "picture": save(f"{stem}-image.png", np.stack([x * 5, y * 5, x + y], axis=-1).astype(np.uint8)),
                "truth": masks(f"{stem}-true", 0),
                "methods": {
                    method: {"masks": masks(f"{stem}-{shift}", shift), "dice": {"disc": 0.9, "cup": 0.8}, "model": site}
                    for shift, method in enumerate(methods, start=1)
                },
            }
        )
    (folder / "index.json").write_text(
        json.dumps({"rule": "Ranked by Dice; shown: the median.", "regions": ["disc", "cup"], "examples": examples})
    )
