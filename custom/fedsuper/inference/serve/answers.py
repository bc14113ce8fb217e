"""What the page tells of one prediction: the numbers, and the same in words."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsuper.core.mode import GLOBAL, SELECT
from fedsuper.data.images.io import Image
from fedsuper.inference.predict.preview import COLORS
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.segment import Prediction, segment

SITE = "site:"


@dataclass(frozen=True)
class Answer:
    """One mode's answer to one image. `labels` is uint8 `[Z, H, W]`; `told` is what the page shows, plain JSON."""

    labels: NDArray[np.uint8]
    told: dict[str, Any]


def offered_modes(predictor: Predictor) -> list[dict[str, str]]:
    """The modes this super model can predict by, each with a title; its own way first."""
    model = predictor.super_model
    titles: dict[str, str] = {}
    if model.mode not in ("own", GLOBAL):
        titles[model.mode] = f"{model.mode}: this super model's own way"
    if GLOBAL in predictor.experts:
        titles[GLOBAL] = "the global model"
    if len(predictor.experts) > 1:
        titles["ensemble"] = "the mean of all models"
        titles["route"] = "a model mixed for this image"
    titles |= {f"{SITE}{site}": f"the model of {site}" for site in predictor.experts if site != GLOBAL}
    return [{"name": name, "title": title} for name, title in titles.items()]


def answer(predictor: Predictor, image: Image, mode: str) -> Answer:
    """Predict one image by one mode and explain it."""
    started = time.monotonic()
    prediction = segment(predictor, image, mode)
    seconds = time.monotonic() - started
    models = list(dict.fromkeys(prediction.chosen))
    q = None if prediction.selector is None else prediction.selector.mean(dim=0).tolist()
    told = {
        "mode": mode,
        "slices": image.stack_shape[0],
        "shown_slice": int((prediction.labels > 0).sum(axis=(1, 2)).argmax()),
        "models": models,
        "verdict": _verdict(models, mode),
        "why": _why(prediction, models, mode, q),
        "review": prediction.review[:1].upper() + prediction.review[1:],
        "probabilities": [
            {"name": name, "probability": value} for name, value in zip(prediction.classes, q or [], strict=False)
        ],
        "gamma": prediction.gamma if q is not None else None,
        "regions": _regions(predictor),
        "facts": _facts(predictor, image, prediction, seconds),
    }
    return Answer(prediction.labels, told)


def _verdict(models: list[str], mode: str) -> str:
    if len(models) > 1:
        return f"Segmented by {len(models)} models, slice by slice"
    known = {"ensemble": "the mean of all models", "route": "a model mixed for this image", GLOBAL: "the global model"}
    name = models[0]
    return f"Segmented by {known.get(name) or (f'mode {mode}' if name == mode else f'the model of {name}')}"


def _why(prediction: Prediction, models: list[str], mode: str, q: list[float] | None) -> str:
    if mode == "ensemble":
        return "Every model was asked, and their outputs were averaged."
    if mode == "route":
        return "All models were mixed, layer by layer, and the mixture was tuned on this image without a label."
    if mode == GLOBAL or mode.startswith(SITE):
        return "You asked for this model; the selector had no say."
    if q is None or (prediction.gamma is None and mode != SELECT):
        return "This is how the super model predicts when nothing else is asked for."
    best = max(range(len(q)), key=q.__getitem__)
    name, value = prediction.classes[best], q[best]
    if prediction.gamma is None:
        return _why_by_expected_dice(prediction, models, f"{name} ({value:.3f})")
    if models == [GLOBAL] and prediction.gamma >= 1:
        return f"It looks most like {name} ({value:.3f}), but the threshold is 1: the global model always answers."
    if models == [GLOBAL]:
        return (
            f"It looks most like {name} ({value:.3f}), which is not above the threshold {prediction.gamma:g}: "
            "the selector is unsure, so the global model answered."
        )
    return f"It looks like {name} ({value:.3f}, above the threshold {prediction.gamma:g}), so that model answered."


def _why_by_expected_dice(prediction: Prediction, models: list[str], likeliest: str) -> str:
    """No threshold has a say: the hospitals measured what every model is worth on their images."""
    if models == [GLOBAL] and prediction.review:
        return f"It looks most like {likeliest}, but is unlike the images of every hospital; the global model answered."
    chosen = "the global model" if models == [GLOBAL] else " and ".join(f"the model of {name}" for name in models)
    return (f"It looks most like {likeliest}. Weighed by the selector's probabilities, the Dice that the hospitals "
            f"measured of every model is best for {chosen}.")


def _regions(predictor: Predictor) -> list[dict[str, str]]:
    """A region's color is that of the innermost label value it alone covers."""
    shown = []
    values = predictor.task.regions
    for name, covered in values.items():
        own = [value for value in covered if all(value not in other or len(other) >= len(covered)
                                                 for other in values.values())]
        value = (own or list(covered))[0]
        red, green, blue = COLORS[(value - 1) % (len(COLORS) - 1) + 1]
        shown.append({"name": name, "color": f"rgb({red}, {green}, {blue})"})
    return shown


def _facts(predictor: Predictor, image: Image, prediction: Prediction, seconds: float) -> list[list[str]]:
    slices, height, width = image.stack_shape
    facts = [["Size", f"{width} × {height} px" + (f", {slices} slices" if slices > 1 else "")]]
    known = prediction.familiarity
    facts.append(["Familiarity", "this super model cannot tell" if known is None else f"{known:.3f}"])
    if prediction.quality is not None:
        value, low, high = prediction.quality
        facts.append(["Estimated Dice", f"{value:.2f} ({low:.2f} to {high:.2f})"])
    for name, covered in predictor.task.regions.items():
        share = float(np.isin(prediction.labels, list(covered)).mean())
        facts.append([f"{name.capitalize()}", f"{100 * share:.1f} % of the image" if share else "not found"])
    facts.append(["Time", f"{seconds:.2f} s"])
    return facts
