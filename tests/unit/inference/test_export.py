"""Exported nets give what the Predictor gives, export.json is enough to use them, no export is ever half there."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from super_models import PROSTATE, RETINA, constant_super_model, random_super_model

from fedsuper.cli import main
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.preprocess import Preprocess
from fedsuper.errors import FedSuperError
from fedsuper.inference import export as module
from fedsuper.inference.artefact import save_super_model
from fedsuper.inference.export import export
from fedsuper.inference.modes import create_mode
from fedsuper.inference.predictor import Predictor, SliceBatch
from fedsuper.train.device import Compute

Run = Callable[[torch.Tensor], torch.Tensor]
SITE = "St. Å/1 $x"
STUDIES: dict[str, dict[str, Any]] = {
    "unet": {"model": {"channels": [4, 8, 8], "residual_units": 1, "norm": "instance"}},
    "plain-unet": {"model": {"name": "plain-unet", "channels": [4, 8], "norm": "batch"}, "selector": {"net": "vgg11"}},
}


@pytest.fixture(scope="module", params=list(STUDIES))
def model(request: pytest.FixtureRequest) -> SuperModel:
    return random_super_model([SITE], **STUDIES[request.param])


@pytest.fixture(scope="module")
def folder(model: SuperModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(model, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def programs(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pt2")  # an empty folder may be there already
    assert {path.name for path in export(folder, "pt2", out)} == {path.name for path in out.iterdir()}
    return out


def saved(model: SuperModel, folder: Path) -> Path:
    save_super_model(model, folder)
    return folder


def predictor_of(model: SuperModel) -> Predictor:
    return Predictor(model, Compute(torch.device("cpu")))


def images(count: int, channels: int = 3) -> torch.Tensor:
    return torch.randn(count, channels, 32, 32, generator=torch.Generator().manual_seed(count))


def description(out: Path) -> dict[str, Any]:
    return json.loads((out / "export.json").read_text(encoding="utf-8"))


def assert_same_as_predictor(model: SuperModel, experts: dict[str, Run], selector: Run) -> None:
    predictor = predictor_of(model)
    assert list(experts) == ["global", SITE]
    for count in (1, 5):
        x = images(count)
        for name, run in experts.items():
            torch.testing.assert_close(run(x), predictor.logits(name, x), atol=1e-5, rtol=0)
        q = selector(x).double().softmax(dim=1)
        torch.testing.assert_close(q, predictor.selector_probabilities(x), atol=1e-5, rtol=0)


def load_program(path: Path) -> Run:
    return torch.export.load(path).module()


def load_onnx(path: Path) -> Run:
    session = pytest.importorskip("onnxruntime").InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda x: torch.from_numpy(session.run(["logits"], {"image": x.numpy()})[0])


def test_pt2_programs_reproduce_the_predictor(model: SuperModel, programs: Path) -> None:
    told = description(programs)
    experts = {name: load_program(programs / file) for name, file in told["models"].items()}
    assert_same_as_predictor(model, experts, load_program(programs / told["selector"]))


def test_pt2_programs_hold_no_pickle(programs: Path) -> None:
    for path in programs.glob("*.pt2"):
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        assert not [name for name, data in members.items() if name.endswith((".pt", ".pkl")) and data]
        configs = [data for name, data in members.items() if name.endswith("_config.json")]
        assert len(configs) == 2 and not [data for data in configs if b'"use_pickle": true' in data]


def test_onnx_reproduces_the_predictor(tmp_path: Path) -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    model = random_super_model([SITE], **STUDIES["unet"])
    files = export(saved(model, tmp_path / "model"), "onnx", tmp_path / "out")
    told = description(tmp_path / "out")
    assert len(files) == 4, "three nets, each with its weights inside, and export.json"
    experts = {name: load_onnx(tmp_path / "out" / file) for name, file in told["models"].items()}
    assert_same_as_predictor(model, experts, load_onnx(tmp_path / "out" / told["selector"]))


def parsed(bundle: Path, net: str, **overrides: str) -> Run:
    """A net of the bundle, made by MONAI's own parser."""
    from monai.bundle import ConfigParser

    parser = ConfigParser()
    parser.read_config(str(bundle / "configs" / "inference.json"))
    parser.read_meta(str(bundle / "configs" / "metadata.json"))
    parser.update({"bundle_root": str(bundle), "device": "cpu"} | overrides)
    return torch.inference_mode()(parser.get_parsed_content(net))


def parsed_experts(bundle: Path) -> dict[str, Run]:
    files = description(bundle)["models"]
    return {name: parsed(bundle, "network", model=Path(file).stem) for name, file in files.items()}


def test_monai_parses_the_bundle_to_the_same_nets(model: SuperModel, folder: Path, tmp_path: Path) -> None:
    from monai.bundle import verify_net_in_out

    out = tmp_path / "bundle"
    export(folder, "monai-bundle", out)
    experts = parsed_experts(out)
    assert_same_as_predictor(model, experts, parsed(out, "selector"))
    x = images(1)
    assert torch.equal(parsed(out, "network")(x), experts["global"](x)), "the global model is the default"
    config, meta = str(out / "configs" / "inference.json"), str(out / "configs" / "metadata.json")
    verify_net_in_out(net_id="network", meta_file=meta, config_file=config, device="cpu", bundle_root=str(out))


def test_a_bundle_runs_nothing_that_a_site_is_named(tmp_path: Path) -> None:
    """MONAI's parser executes strings that begin with `$`; a super model may come from anywhere."""
    model = random_super_model([f"$open('{tmp_path / 'ran'}', 'w')"])
    model.global_model = None
    export(saved(model, tmp_path / "model"), "monai-bundle", tmp_path / "out")
    for key in ("network", "selector"):
        assert parsed(tmp_path / "out", key)(images(1)).shape[0] == 1
    texts = [path.read_text(encoding="utf-8") for path in (tmp_path / "out" / "configs").iterdir()]
    assert len(texts) == 2 and not [text for text in texts if "open(" in text]
    assert not (tmp_path / "ran").exists()


def test_the_description_is_enough_to_select(tmp_path: Path) -> None:
    """FedSM's gate by export.json and the nets alone, as another tool would do it, is the Predictor's."""
    model = random_super_model()
    export(saved(model, tmp_path / "model"), "monai-bundle", tmp_path / "out")
    told, experts = description(tmp_path / "out"), parsed_experts(tmp_path / "out")
    x = images(10) * torch.linspace(0.1, 3, 10)[:, None, None, None]
    q = parsed(tmp_path / "out", "selector")(x).double().softmax(dim=1)
    chosen = ["global" if row.max() <= told["gamma"] else told["selector_classes"][row.argmax()] for row in q]
    probabilities = torch.cat([experts[name](one[None]).sigmoid() for name, one in zip(chosen, x, strict=True)])

    predictor = predictor_of(model)
    expected = create_mode(predictor, told["mode"]).predict(SliceBatch(predictor, x.split(1)))
    assert chosen == expected.chosen and len(set(chosen)) > 1
    torch.testing.assert_close(probabilities, expected.probabilities, atol=1e-5, rtol=0)
    assert Preprocess.from_json(told["preprocess"]) == predictor.preprocess
    assert {"task": told["task"], "channels": told["channels"], "regions": told["regions"]} == RETINA
    assert told["threshold"] == 0.5 and told["input"] == ["batch", *x.shape[1:]]


def test_without_a_selector_there_is_no_gamma(tmp_path: Path) -> None:
    model = constant_super_model({"global": [True]}, mode="global", task=PROSTATE)
    export(saved(model, tmp_path / "model"), "monai-bundle", tmp_path / "out")
    told = description(tmp_path / "out")
    assert (told["selector"], told["selector_classes"], told["gamma"]) == (None, None, None)
    assert "selector" not in json.loads((tmp_path / "out/configs/inference.json").read_text(encoding="utf-8"))


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_missing_super_model_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["export", str(tmp_path / "none"), "--to", "pt2", "--out", str(tmp_path / "out")])
    assert code == 2 and "no such folder" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_unknown_target_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(FedSuperError, match="--to torchscript.*monai-bundle, onnx, pt2"):
        export(tmp_path, "torchscript", tmp_path / "out")


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_there_is_not_overwritten(kind: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    kept = out / "mine.txt" if kind == "folder" else out
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("mine")
    with pytest.raises(FedSuperError, match="name a new or an empty folder"):
        export(tmp_path, "pt2", out)
    assert kept.read_text() == "mine"


def test_an_absent_extra_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FedSuperError, match=r"needs onnx and onnxscript; install with pip install '\.\[onnx\]'"):
        export(tmp_path, "onnx", tmp_path / "out")


def test_a_selector_of_another_run_is_refused(tmp_path: Path) -> None:
    model = random_super_model(["A", "B"])
    model.selector = random_super_model(["A", "B", "C"]).selector
    with pytest.raises(FedSuperError, match="'selector' do not fit"):
        export(saved(model, tmp_path / "model"), "pt2", tmp_path / "out")


def test_an_export_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(program: Any, path: Path) -> None:
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch.export, "save", full_disk)
    folder = saved(constant_super_model({"global": [True]}, mode="global", task=PROSTATE), tmp_path / "model")
    with pytest.raises(FedSuperError, match=r"cannot be written \(No space left on device\)"):
        export(folder, "pt2", tmp_path / "deep" / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
