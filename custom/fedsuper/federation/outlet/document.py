"""docs/reference/what-travels.md, made from the declaration that the outlet and the door enforce.

    python -m fedsuper.federation.outlet.document > docs/reference/what-travels.md
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from fedsuper.config.reading import parse_study
from fedsuper.data.task import Task
from fedsuper.federation.outlet.declared import REPLIES, Travel, travels
from fedsuper.methods import METHODS, method_class

TASK = Task.from_json({"task": "retina", "channels": 3, "regions": {"disc": [1, 2], "cup": [2]}})
VARIANTS: dict[str, dict[str, Any]] = {
    "fedsm, `lambda: auto`": {"method": "fedsm", "fedsm": {"lambda": "auto"}},
    "fedsm, `personal: auto`": {"method": "fedsm", "fedsm": {"personal": "auto"}},
    "fedsm, `selector.optimizer: synced-moments`": {"method": "fedsm", "selector": {"optimizer": "synced-moments"}},
}
WHEN = {
    "describe": "before round 1", "train": "every round", "finish": "after the last round",
    "handover": "once, with the finished super model", "calibrate": "two or three times, after the hand-over",
    "settle": "once, at the very end", "offer": "inference and evaluation: which files are missing",
    "predict": "inference: after the site's inbox was segmented", "score": "evaluation: after its images were scored",
}
HEAD = """# What travels

Made from the code by `python -m fedsuper.federation.outlet.document`; a test keeps it in step. The same declaration is
enforced twice: by the site's outlet before anything leaves (an allow-list that fails closed, on NVFlare also as a
filter that the site's policy can require) and by the server's door. What a site sent is in its own `audit.jsonl`, a
line a task. [Privacy](../explanation/privacy.md) says what this protects and what it does not.

## The plain part of every answer

Figures over fewer patients than the site's `minimum` are withheld, and smaller counts are told as that many. Keys
beyond these are refused.

| task | when | what it holds |
|---|---|---|
"""
MODELS = """
## The models, by method

With the default study (U-Net, two regions); the last column counts numbers. A *model* is trained weights; a *gradient
or difference* says only how one was moved; *figures* are neither. After the last round every method also sends
`feature-sums` with the hand-over: how many training images, the sum of their features and of the features' products;
and `quality-sums` with the last calibration, the same of what every model's masks of the validation images look like,
with their Dice (not at all where the feature sums are noisy). No image, mask, name or per-image figure is among them,
with one exception: `bank` of `feddg` holds amplitude spectra of single images.

With `wire: fp16` or `bf16` a *model* that comes down in a round and goes up again under its name travels in 16 bits,
and goes up as its change: door and outlet take exactly that type, and judge the model that the change means.
Everything else keeps its 32 bits ([traffic](../explanation/traffic.md)).

| method | task | what | kind | numbers |
|---|---|---|---|---|
"""
TAIL = """
A site refuses methods by `refuse_methods` and single models by `refuse_models` in its site file (see
[running on NVFlare](../how-to/run-on-nvflare.md)).

## What a site hears

The models its method sends down each round; once the finished super model, whole up to `federation.handover` models and
beyond that its share (the global model, the selector, its own model and those of the sites whose images are nearest);
the names of the sites, and a manifest with what a predictor needs. Of the other sites'
validation scores, counts and histories it hears nothing; means over all sites (the gamma curve) are in the manifest,
and, unless `selector.gate: threshold`, the rows of expected Dice.

## What else leaves a site

An error line: one sentence without names or paths, the whole of it stays in the site's log. Metrics to a tracker only
where the study sets `tracking` and the site file does not say `refuse_streaming: true`. NVFlare's own
messages: heartbeats, job status and, if an admin asks, the job's log (see its `authorization.json`).
"""


def document() -> str:
    """The whole page."""
    plain = [f"| `{task}` | {WHEN[task]} | {', '.join(f'`{name}`' for name in _fields(kind))} |"
             for task, kind in REPLIES.items()]
    names = [name for name in METHODS if not method_class(name).pooled]
    models = [row for name in names for row in _rows(name, {"method": name})]
    models += [row for name, study in VARIANTS.items() for row in _rows(name, study)]
    return HEAD + "\n".join(plain) + "\n" + MODELS + "\n".join(models) + "\n" + TAIL


def _rows(name: str, study: dict[str, Any]) -> Iterator[str]:
    for travel in travels(parse_study(study), TASK):
        if travel.numbers:
            yield f"| {name} | {_task(travel)} | `{travel.name}` | {travel.what} | {travel.numbers:,} |"


def _task(travel: Travel) -> str:
    return f"`{travel.task}`" if travel.phase in ("", "training") else f"`{travel.task}` ({travel.phase})"


def _fields(kind: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every field, those of an inner schema under its name."""
    for name, field in kind.model_fields.items():
        inner = [one for one in (field.annotation, *typing.get_args(field.annotation))
                 if isinstance(one, type) and issubclass(one, BaseModel)]
        if inner:
            yield from _fields(inner[0], f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


if __name__ == "__main__":
    print(document(), end="")
