"""What a lying or broken site was seen to send, or could: each lie by name, with the task it answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from paper_sites import LIAR, SAMPLES, paper_study
from tampering import INF, NAN, drop, entry, nested, plain, put, scaled, whole

from fedsuper.config import Study
from fedsuper.federation.completion.site_calibration import SUMS
from fedsuper.federation.messages import CALIBRATE, DESCRIBE, FINISH, HANDOVER, SETTLE, TRAIN, Message, SiteFailure

CLOSED = json.dumps({"selector": {"kind": "statistics"}})
COSTS = json.dumps({"selector": {"gate": "expected-dice"}})


@dataclass(frozen=True)
class LieOf:
    """`tell` turns an honest answer to `task`, when asked for the `at`-th time, into the lie."""

    task: str
    tell: Callable[[Message], Any] = lambda message: message
    at: int = 0
    method: str = "fedsm"
    settings: str = "{}"

    def study(self) -> Study:
        """The study in which it is told."""
        return paper_study(self.method, rounds=1 + self.at, **json.loads(self.settings))


LIES: dict[str, LieOf] = {}


def tell(task: str, lies: dict[str, Callable[[Message], Any]], at: int = 0, method: str = "fedsm",
         settings: str = "{}", title: str = "") -> None:
    """Add lies under names of their own."""
    for name, lie in lies.items():
        LIES[f"{title or task}: {name}"] = LieOf(task, lie, at, method, settings)


VALUES: dict[str, Any] = {"text": "8", "infinite": INF, "NaN": NAN, "None": None, "a list": [], "an object": {},
                          "true": True, "negative": -1, "10^18": 10**18, "10^400": 10**400}
BROKEN: dict[str, Callable[[Message], Any]] = {
    "plain part is a list": plain([1]), "plain part is None": plain(None), "plain part is text": plain("yes"),
    "plain part is empty": plain({}), "unknown key": put("unknown", 1), "10,000 levels": put("more", nested(10_000)),
    "10 MB of text": put("more", "x" * 10**7), "control characters": put("more", "\x1b[2J\nserver: done"),
    "bytes": put("more", b"raw"), "an object of Python": put("more", object()),
    "a key that is no text": put("more", {1: 2}),
    "a million values": put("more", [0] * 10**6), "a failure with 10 MB": lambda _: SiteFailure("x" * 10**7),
    "a failure with control characters": lambda _: SiteFailure("\x1b[31mred\nround 9/9 done"),
    "a failure without text": lambda _: SiteFailure(None),  # type: ignore[arg-type]
}
REPLAYED: dict[str, Callable[[Message], Any]] = {
    "replayed reply": put("round", 0), "reply of a later round": put("round", 7), "round is text": put("round", "1"),
    "round is missing": drop("round"), "round is None": put("round", None), "round is true": put("round", True),
}
tell(TRAIN, {f"samples {name}": put("samples", value) for name, value in VALUES.items()}
     | {"samples 0": put("samples", 0), "samples missing": drop("samples"), "samples 8.5": put("samples", 8.5),
        "one sample more than described": put("samples", SAMPLES["train"] + 1)})
tell(TRAIN, {f"Dice {name}": put("metrics|val/global", value) for name, value in VALUES.items()}
     | {"Dice 1e9": put("metrics|val/global", 1e9), "Dice 1.0001": put("metrics|val/personal", 1.0001),
        "accuracy 2": put("metrics|val/selector", 2.0), "unused loss NaN": put("metrics|loss/selector", NAN),
        "loss is text": put("metrics|loss/global", "0.7"), "metrics missing": drop("metrics"),
        "metrics None": put("metrics", None), "metrics a list": put("metrics", [0.5]),
        "metric of an unknown model": put("metrics|val/other", 0.5), "metric without a model": put("metrics|val", 0.5),
        "metric of an unknown kind": put("metrics|best/global", 0.5),
        "metric with a newline": put("metrics|val/global\nround 9", 0.5),
        "100,000 metrics": put("metrics", {f"val/{n}": 0.5 for n in range(100_000)})})
tell(TRAIN, BROKEN)
tell(TRAIN, REPLAYED, at=1)
tell(TRAIN, {
    "models a list": lambda m: Message([1], m.info), "models None": lambda m: Message(None, m.info),  # type: ignore[arg-type]
    "no models": lambda m: Message({}, m.info),
    "a model missing": lambda m: Message({k: v for k, v in m.models.items() if k != "personal"}, m.info),
    "unknown role": lambda m: Message(m.models | {"extra": {"w": torch.zeros(3)}}, m.info),
    "1 GB unknown role": lambda m: Message(m.models | {"x": {"w": torch.zeros(1).expand(2**28)}}, m.info),
    "role that is no text": lambda m: Message(m.models | {3: {}}, m.info),  # type: ignore[dict-item]
    "another site's role": lambda m: Message(m.models | {"personal/amber": m.models["personal"]}, m.info),
    "a list for a model": whole(lambda state: list(state.values())), "None for a model": whole(lambda _: None),
    "an empty model": whole(lambda _: {}), "weights x 100": whole(scaled(100.0)), "weights x 1e30": whole(scaled(1e30)),
    "weights x -1e4": whole(scaled(-1e4)), "personal x 1e30": whole(scaled(1e30), "personal"),
    "selector x 1e30": whole(scaled(1e30), "selector"), "selector NaN": whole(scaled(NAN), "selector"),
    "an entry more": whole(lambda s: s | {"w": torch.zeros(2)}),
    "an entry less": whole(lambda s: dict(list(s.items())[1:])),
    "an entry that is no text": whole(lambda s: {**dict(list(s.items())[1:]), 1: torch.zeros(2)}),
    "a list for a tensor": entry(lambda t: t.tolist()), "an array for a tensor": entry(lambda t: t.numpy()),
    "None for a tensor": entry(lambda _: None), "a number for a tensor": entry(lambda _: 1.0),
    "one NaN": entry(lambda t: t.index_fill(0, torch.tensor(0), NAN)), "one infinity": entry(lambda t: t / 0.0),
    "another shape": entry(lambda t: t[:1]), "transposed": entry(lambda t: t.transpose(0, 1)),
    "no dimension": entry(lambda t: t.sum()), "empty": entry(lambda t: t[:0]), "float64": entry(lambda t: t.double()),
    "half": entry(lambda t: t.half()), "whole numbers": entry(lambda t: t.long()), "complex": entry(lambda t: t + 0j),
    "bool": entry(lambda t: t > 0), "sparse": entry(lambda t: t.to_sparse()), "meta": entry(lambda t: t.to("meta")),
    "quantized": entry(lambda t: torch.quantize_per_tensor(t, 0.1, 0, torch.quint8)),
    "largest floats": entry(lambda t: torch.full_like(t, 3e38)),
    "negative running variance": entry(lambda t: -t - 1, only="running_var"),
    "negative counter": entry(lambda t: t - 10**6, only="num_batches_tracked"),
    "counter of floats": entry(lambda t: t.float(), only="num_batches_tracked"),
})
tell(TRAIN, {"negative second moment": whole(lambda s: {n: -t - 1 for n, t in s.items()}, "selector-v"),
             "step sent up": lambda m: Message(m.models | {"selector-step": {"step": torch.tensor(9)}}, m.info)},
     settings=json.dumps({"selector": {"optimizer": "synced-moments"}}), title="train, synced moments")
tell(TRAIN, {"control NaN": whole(scaled(NAN), "control"), "control x 1e30": whole(scaled(1e30), "control")},
     method="scaffold", title="train, scaffold")
tell(TRAIN, {"spectra x 1e30": whole(scaled(1e30), "bank"), "negative spectra": whole(scaled(-1.0), "bank"),
             "spectra of 1000 images": entry(lambda t: t[:1].repeat(1000, 1, 1, 1), "bank"),
             "no spectra": lambda m: Message({"global": m.models["global"]}, m.info)},
     method="feddg", title="train, feddg")
tell(TRAIN, {"private part sent": whole(lambda s: s | {"model.1.bias": torch.zeros(1)})}, method="fedbn",
     title="train, fedbn")
tell(TRAIN, {"a model although nothing travels": lambda m: Message({"personal": {"w": torch.zeros(2)}}, m.info)},
     method="local", title="train, local")
tell(FINISH, {"personal NaN": whole(scaled(NAN), "personal"), "personal x 1e30": whole(scaled(1e30), "personal"),
              "personal cut": whole(lambda s: dict(list(s.items())[1:]), "personal"),
              "personal a list": whole(lambda s: list(s), "personal"),
              "global sent too": lambda m: Message(m.models | {"global": m.models["personal"]}, m.info),
              "metric NaN": put("metrics|val/personal", NAN), "Dice 1e9": put("metrics|val/personal", 1e9),
              "metrics missing": drop("metrics"), "samples told": put("samples", 8)} | REPLAYED | BROKEN,
     method="ditto")
tell(HANDOVER, {"gamma curve with text": put("calibration|gamma|dice_sum|3", "high"),
                "gamma curve NaN": put("calibration|gamma|dice_sum|3", NAN),
                "gamma curve above its images": put("calibration|gamma|dice_sum|3", 9.5),
                "gamma curve negative": put("calibration|gamma|dice_sum|3", -1.0),
                "gamma curve cut": put("calibration|gamma|dice_sum", [1.0]),
                "another grid": put("calibration|gamma|gamma|3", 0.123),
                "more to the global model than images": put("calibration|gamma|to_global|0", 10),
                "images 0": put("calibration|gamma|images", 0), "images missing": drop("calibration|gamma|images"),
                "images 10^12": put("calibration|gamma|images", 10**12),
                "images as text": put("calibration|gamma|images", "9"),
                "calibration a list": put("calibration", [1]), "calibration missing": drop("calibration"),
                "calibration of another method": put("calibration|other", {}),
                "gamma a number": put("calibration|gamma", 1),
                "weights along": lambda m: Message(m.models | {"global": {"w": torch.zeros(2)}}, m.info)}
     | REPLAYED | BROKEN)
tell(HANDOVER, {"utility of other models": put("calibration|utility|dice_sum", {"global": 1.0}),
                "utility above its images": put("calibration|utility|dice_sum|global", 99.0),
                "cross-entropy NaN": put("calibration|utility|cross_entropy|0", NAN),
                "cross-entropy cut": put("calibration|utility|cross_entropy", [1.0])}, settings=COSTS,
     title="handover, expected Dice")
tell(HANDOVER, {"sums NaN": whole(scaled(NAN), SUMS), "sums 1e300": whole(scaled(1e300), SUMS),
                "sums x 1e9": whole(scaled(1e9), SUMS), "sums a list": whole(lambda s: list(s), SUMS),
                "sums without outer": whole(lambda s: {n: t for n, t in s.items() if n != "outer"}, SUMS),
                "sums with more": whole(lambda s: s | {"x": torch.zeros(1)}, SUMS),
                "sums of no image": whole(lambda s: s | {"count": torch.tensor(0)}, SUMS),
                "sums of negative images": whole(lambda s: s | {"count": torch.tensor(-5)}, SUMS),
                "sums of a billion images": whole(lambda s: s | {"count": torch.tensor(10**9)}, SUMS),
                "several counts": whole(lambda s: s | {"count": torch.tensor([3, 4])}, SUMS),
                "outer not square": whole(lambda s: s | {"outer": s["outer"][:2]}, SUMS)},
     settings=CLOSED, title="handover, closed form")
tell(CALIBRATE, {"counts a list": put("counts", [1]), "images 0": put("counts|images", 0),
                 "images 10^9": put("counts|images", 10**9), "right cut": put("counts|right", [[5]]),
                 "right above images": put("counts|right|0|0", 10), "right negative": put("counts|right|0|0", -1),
                 "cross-entropy NaN": put("counts|cross_entropy|0|0", NAN),
                 "cross-entropy negative": put("counts|cross_entropy|0|0", -1.0),
                 "distances that do not add up": put("counts|distances|0|0", 3),
                 "weights along": lambda m: Message({"global": {"w": torch.zeros(2)}}, m.info)} | REPLAYED,
     settings=CLOSED)
tell(SETTLE, {"another site's scores": lambda m: Message({}, m.info | {"scores": {"amber": m.info["scores"][LIAR]}}),
              "others' scores too": lambda m: Message({}, m.info | {"scores": m.info["scores"] | {
                  "amber": m.info["scores"][LIAR]}}),
              "Dice 2": put(f"scores|{LIAR}|disc", 2), "Dice 1.01": put(f"scores|{LIAR}|disc", 1.01),
              "Dice NaN": put(f"scores|{LIAR}|disc", NAN), "Dice negative": put(f"scores|{LIAR}|disc", -0.5),
              "Dice as text": put(f"scores|{LIAR}|disc", "0.8"), "a region missing": drop(f"scores|{LIAR}|cup"),
              "an unknown region": put(f"scores|{LIAR}|liver", 0.5), "n 0": put(f"scores|{LIAR}|n", 0),
              "n 10^9": put(f"scores|{LIAR}|n", 10**9), "n 0.5": put(f"scores|{LIAR}|n", 0.5),
              "scores empty": put("scores", {}), "scores a list": put("scores", [0.8]),
              "scores missing": drop("scores"),
              "weights along": lambda m: Message({"global": {"w": torch.zeros(2)}}, m.info)} | REPLAYED | BROKEN)
tell(DESCRIBE, {f"training samples {name}": put("samples|train", value) for name, value in VALUES.items()}
     | {"no training samples": put("samples|train", 0), "a part missing": drop("samples|val"),
        "another part": put("samples|more", 3), "another FedSuper": put("software|fedsuper", "0.0.1"),
        "other code": put("software|code", "0" * 16), "another torch": put("software|torch", "1.0.0"),
        "another nvflare": put("software|nvflare", "1.0"), "software missing": drop("software"),
        "another study": put("study", "0" * 16), "another task": put("task|channels", 1),
        "task a list": put("task", [1]), "channels as text": put("task|channels", "3"),
        "regions a list": put("task|regions", ["disc"]), "fingerprint a list": put("fingerprint", []),
        "fingerprint NaN": put("fingerprint|size|height|mean", NAN), "channels 0": put("fingerprint|channels", 0),
        "other channels": put("fingerprint|channels", 1), "spread negative": put("fingerprint|size|height|sd", -1.0),
        "another site's split": put("splits", {"amber": "ab" * 32}),
        "a split that is no digest": put("splits|cedar", "x"),
        "changes negative": put("changes|added", -1), "changes of another kind": put("changes|burned", 1),
        "data that is no digest": put("data", "all of it"),
        "weights along": lambda m: Message({"global": {"w": torch.zeros(2)}}, m.info)} | BROKEN)
