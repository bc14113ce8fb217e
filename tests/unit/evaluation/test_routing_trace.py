"""Dice against time: what is kept is chosen by the loss, never by the labels that draw the curve."""

import json

import numpy as np
import pytest
from PIL import Image
from super_models import RETINA, random_super_model

from fedsuper.evaluation.evaluate import evaluate
from fedsuper.evaluation.exhibits.routing_trace import trace_routing
from fedsuper.inference.overrides import with_routing


@pytest.fixture
def root(tmp_path):
    rng = np.random.default_rng(1)
    (tmp_path / "dataset.json").write_text(json.dumps(RETINA))
    for kind in ("images", "labels"):
        (tmp_path / "north" / kind).mkdir(parents=True)
    for index in range(3):
        pixels = rng.integers(0, 255, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "north" / "images" / f"{index}.png")
        label = rng.integers(0, 3, (32, 32), dtype=np.uint8)
        Image.fromarray(label).save(tmp_path / "north" / "labels" / f"{index}.png")
    return tmp_path


def test_the_curve_ends_where_the_mode_ends(root):
    model = random_super_model(routing={"epochs": 3, "radius": 2, "lr": 0.05})
    trace = trace_routing(model, root, "north")
    assert [point.epoch for point in trace.points] == [0, 1, 2, 3]
    assert all(a.seconds < b.seconds for a, b in zip(trace.points, trace.points[1:], strict=False))
    assert all(a.loss >= b.loss for a, b in zip(trace.points, trace.points[1:], strict=False))
    final = np.mean([row.mean for row in evaluate(model, root, "all", "route")])
    assert trace.points[-1].dice == pytest.approx(final, abs=1e-6)
    untuned = evaluate(with_routing(model, epochs=0), root, "all", "route")
    assert trace.points[0].dice == pytest.approx(np.mean([row.mean for row in untuned]), abs=1e-6)
    assert trace.experts == ["global", "A", "B", "C"]
    assert all(sum(row) == pytest.approx(1, abs=1e-4) for row in trace.coefficients.values())
    json.dumps(trace.to_json(), allow_nan=False)
