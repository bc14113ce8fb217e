"""The whole life of every net: it learns, a super model of it predicts, is routed, and leaves as pt2, ONNX and bundle.

The net of docs/how-to/add-a-net.md is made from the page and lives the same life.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from exported import Run, load_onnx, load_program
from super_models import random_super_model

import fedsuper.models.nets
from fedsuper.config import OptimizerConfig, RoutingConfig
from fedsuper.config.reading import parse_study
from fedsuper.core.supermodel import SuperModel
from fedsuper.errors import FedSuperError
from fedsuper.inference.artifact import save_super_model
from fedsuper.inference.export.models import export
from fedsuper.inference.predictor import Predictor
from fedsuper.models.build import build_segmentation
from fedsuper.models.registry import NETS, net_settings, settings_type
from fedsuper.models.routed.routed_net import RoutedNet
from fedsuper.train.device import Compute
from fedsuper.train.learner import Batch, Learner, make_optimizer
from fedsuper.train.losses import dice_bce_loss

DOCS = Path(__file__).parents[3] / "docs"
HOW_TO = DOCS / "how-to" / "add-a-net.md"
DOCUMENTED = "dilated"
CPU = Compute(torch.device("cpu"))
EVERY_NET = pytest.mark.parametrize("name", [*NETS, DOCUMENTED])


@pytest.fixture(autouse=True)
def documented_net(monkeypatch: pytest.MonkeyPatch) -> None:
    """The document's net, registered as the document says."""
    text = HOW_TO.read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    line = re.search(r'^"dilated": "([\w.]+):(\w+)",$', text, re.MULTILINE)
    assert line is not None
    module = ModuleType(line.group(1))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(fedsuper.models.nets, "dilated", module, raising=False)
    exec(compile(code, str(HOW_TO), "exec"), module.__dict__)
    monkeypatch.setitem(NETS, DOCUMENTED, f"{line.group(1)}:{line.group(2)}")


def small(name: str) -> dict[str, object]:
    """The net with few weights."""
    narrow: dict[str, object] = {"channels": [4, 8]} if "channels" in settings_type(name).model_fields else {"width": 6}
    return {"name": name, **narrow}


def super_model(name: str) -> SuperModel:
    return random_super_model(["A"], model=small(name))


def images(count: int) -> torch.Tensor:
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(count))


@EVERY_NET
def test_it_learns(name: str) -> None:
    torch.manual_seed(0)
    net = build_segmentation(net_settings(small(name)), 3, 2)
    optimizer = make_optimizer(list(net.parameters()), OptimizerConfig(lr=0.02))
    learner = Learner("global", net, optimizer, dice_bce_loss, CPU)
    x = images(4)
    masks = torch.stack([x[:, 0] > 0.5, x[:, 1] < 0], dim=1).float()
    batch = Batch(x, masks, torch.arange(4), lambda: batch)
    losses = [float(learner.step(batch)) for _ in range(25)]
    assert losses[-1] < 0.8 * losses[0]


@EVERY_NET
def test_it_predicts_and_is_routed(name: str) -> None:
    """One-hot routing is the expert itself."""
    predictor = Predictor(super_model(name), CPU)
    x = images(2)
    experts = [predictor.super_model.experts()[expert] for expert in predictor.experts]
    with torch.device("meta"):
        template = build_segmentation(predictor.study.model, 3, 2)
    routing = RoutingConfig(norm_statistics="running")
    routed = RoutedNet(template, experts, routing, torch.Generator().manual_seed(0))
    for index, expert in enumerate(predictor.experts):
        routed.pin(torch.eye(len(experts))[index])
        with torch.no_grad():
            torch.testing.assert_close(routed(x), predictor.logits(expert, x), atol=1e-5, rtol=0)


@pytest.mark.slow
@EVERY_NET
@pytest.mark.parametrize(("to", "load"), [("pt2", load_program), ("onnx", load_onnx)])
def test_it_is_exported(name: str, to: str, load: Callable[[Path], Run], tmp_path: Path) -> None:
    pytest.importorskip("onnxscript" if to == "onnx" else "torch")
    model = super_model(name)
    save_super_model(model, tmp_path / "model")
    export(tmp_path / "model", to, tmp_path / "out")
    told = json.loads((tmp_path / "out" / "export.json").read_text(encoding="utf-8"))
    program = load(tmp_path / "out" / told["models"]["global"])
    expected = Predictor(model, CPU).logits("global", images(3))
    torch.testing.assert_close(program(images(3)), expected, atol=1e-4, rtol=0)


@pytest.mark.slow
@EVERY_NET
def test_monai_builds_it_from_the_bundle(name: str, tmp_path: Path) -> None:
    from monai.bundle import ConfigParser

    model = super_model(name)
    save_super_model(model, tmp_path / "model")
    export(tmp_path / "model", "monai-bundle", tmp_path / "out")
    parser = ConfigParser()
    parser.read_config(str(tmp_path / "out" / "configs" / "inference.json"))
    parser["bundle_root"] = str(tmp_path / "out")
    with torch.no_grad():
        found = parser.get_parsed_content("network")(images(2))
    torch.testing.assert_close(found, Predictor(model, CPU).logits("global", images(2)), atol=1e-6, rtol=0)


def test_the_documented_net_is_refused_what_it_does_not_have() -> None:
    for knobs in ({"channels": [4, 8]}, {"depth": 9}, {"width": 100_000}):
        with pytest.raises(FedSuperError, match="model"):
            parse_study({"model": {"name": DOCUMENTED, **knobs}})


@pytest.mark.parametrize("name", NETS)
def test_the_reference_has_a_row_for_every_net(name: str) -> None:
    row = re.search(rf"^\| `{name}` \|[^|]*\|([^|]*)\|$", (DOCS / "reference" / "study.md").read_text(), re.MULTILINE)
    assert row is not None
    assert set(re.findall(r"`(\w+)`", row.group(1))) >= set(settings_type(name).model_fields) - {"name"}


def test_the_documents_pointers_lead_somewhere() -> None:
    package = Path(sys.modules["fedsuper.models.registry"].__file__ or "").parent
    text = HOW_TO.read_text(encoding="utf-8").replace("dilated.py", "")
    for found in re.findall(r"`(?:custom/fedsuper/models/)?((?:nets/)?\w+\.py)`", text):
        assert list(package.rglob(found)), found
