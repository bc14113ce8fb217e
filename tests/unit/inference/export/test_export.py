"""An export holds what it says, runs in MONAI's own tools, tells nobody's name, and is never half there."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from export_cases import description, predictor_of, saved, super_model_with
from exported import Run
from super_models import PROSTATE, RETINA, constant_super_model, random_super_model

from fedsuper.cli import main
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.preprocess import Preprocess
from fedsuper.errors import FedSuperError
from fedsuper.inference.export import models as module
from fedsuper.inference.export.models import export

SITE = "St. Å/1 $x"


def images(count: int, channels: int = 3) -> torch.Tensor:
    return torch.randn(count, channels, 32, 32, generator=torch.Generator().manual_seed(count))


def parsed(bundle: Path, net: str, **overrides: str) -> Run:
    """A net of the bundle, made by MONAI's own parser."""
    from monai.bundle import ConfigParser

    parser = ConfigParser()
    parser.read_config(str(bundle / "configs" / "inference.json"))
    parser.read_meta(str(bundle / "configs" / "metadata.json"))
    parser.update({"bundle_root": str(bundle), "device": "cpu"} | overrides)
    return torch.inference_mode()(parser.get_parsed_content(net))


def members(out: Path) -> dict[str, bytes]:
    """Every file of an export, and every member of those that are archives."""
    found = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for path in out.rglob("*.pt2"):
        with zipfile.ZipFile(path) as archive:
            found |= {f"{path.name}:{name}": archive.read(name) for name in archive.namelist()}
    return found


# --- the bundle -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["unet", "plain-unet"])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[SuperModel, Path]:
    folder = tmp_path_factory.mktemp("bundle")
    model = random_super_model([SITE], model={"name": request.param, "channels": [4, 8]})
    export(saved(model, folder / "model"), "monai-bundle", folder / "out")
    return model, folder / "out"


def test_monai_verifies_the_metadata_without_a_network(bundle: tuple[SuperModel, Path]) -> None:
    from monai.bundle import verify_metadata

    configs = bundle[1] / "configs"
    verify_metadata(meta_file=str(configs / "metadata.json"), filepath=str(configs / "metadata.schema.json"))


@pytest.mark.parametrize("key", ["monai_version", "network_data_format", "required_packages_version", "authors"])
def test_metadata_without_a_key_is_refused(key: str, bundle: tuple[SuperModel, Path], tmp_path: Path) -> None:
    from monai.bundle import verify_metadata

    told = json.loads((bundle[1] / "configs/metadata.json").read_text(encoding="utf-8"))
    (tmp_path / "metadata.json").write_text(json.dumps({k: v for k, v in told.items() if k != key}))
    schema = bundle[1] / "configs/metadata.schema.json"
    with pytest.raises(ValueError, match=f"'{key}' is a required property"):
        verify_metadata(meta_file=str(tmp_path / "metadata.json"), filepath=str(schema))


def test_monai_verifies_the_net(bundle: tuple[SuperModel, Path]) -> None:
    from monai.bundle import verify_net_in_out

    model, out = bundle
    config, meta = str(out / "configs" / "inference.json"), str(out / "configs" / "metadata.json")
    verify_net_in_out(net_id="network", meta_file=meta, config_file=config, device="cpu", bundle_root=str(out))
    x = images(2)
    assert torch.equal(parsed(out, "network")(x), predictor_of(model).logits("global", x)), "global is the default"
    torch.testing.assert_close(
        parsed(out, "network", model="personal-site-1")(x), predictor_of(model).logits(SITE, x), atol=1e-5, rtol=0
    )


def test_a_bundle_runs_nothing_that_a_site_is_named(tmp_path: Path) -> None:
    """MONAI's parser executes strings that begin with `$`; a super model may come from anywhere."""
    model = random_super_model([f"$open('{tmp_path / 'ran'}', 'w')"])
    model.global_model, model.manifest["gamma"] = None, 0.0
    export(saved(model, tmp_path / "model"), "monai-bundle", tmp_path / "out", name_sites=True)
    assert parsed(tmp_path / "out", "network")(images(1)).shape[0] == 1
    assert int(parsed(tmp_path / "out", "selector")(images(1))[1]) == 0
    texts = [path.read_text(encoding="utf-8") for path in (tmp_path / "out" / "configs").iterdir()]
    assert len(texts) == 3 and not [text for text in texts if "open(" in text]
    assert not (tmp_path / "ran").exists()


# --- what is told -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("to", ["pt2", "onnx", "monai-bundle", "card"])
def test_no_byte_names_a_site_or_this_machine(to: str, tmp_path: Path) -> None:
    if to == "onnx":
        pytest.importorskip("onnxscript")
    model = random_super_model(["Lyon-Sud", "Graz"])
    model.manifest["metrics"] = {"validation": {"personal/Graz": {"score": 0.5, "round": 1.0}},
                                 "test": {"Graz": {"Graz": {"disc": 0.5, "cup": 0.5, "mean": 0.5, "n": 3}}}}
    export(saved(model, tmp_path / "model"), to, tmp_path / "out")
    held = members(tmp_path / "out")
    assert held
    for secret in ("Lyon", "Graz", str(tmp_path), str(Path(torch.__file__).parent), "fedsuper/inf"):
        assert not [name for name, data in held.items() if secret.encode() in data or secret in name]


def test_sites_that_agree_are_named(tmp_path: Path) -> None:
    folder = saved(random_super_model(["Lyon", "Graz"]), tmp_path / "model")
    assert main(["export", str(folder), "--to", "monai-bundle", "--out", str(tmp_path / "out"), "--name-sites"]) == 0
    told = description(tmp_path / "out")
    assert list(told["models"]) == ["global", "Lyon", "Graz"] and told["sites"] == ["Lyon", "Graz"]
    assert (tmp_path / "out" / "models" / "personal-Lyon.safetensors").exists()
    assert "| Lyon |" in (tmp_path / "out" / "MODEL_CARD.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_pt2_programs_hold_no_pickle(tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(saved(super_model_with("expected-dice", tmp_path / "sites"), tmp_path / "model"), "pt2", out)
    held = members(out)
    assert not [name for name, data in held.items() if name.endswith((".pt", ".pkl")) and data]
    configs = [data for name, data in held.items() if name.endswith("_config.json")]
    assert len(configs) == 8 and not [data for data in configs if b'"use_pickle": true' in data]


def test_the_description_says_how_to_use_the_nets(tmp_path: Path) -> None:
    model = random_super_model()
    export(saved(model, tmp_path / "model"), "monai-bundle", tmp_path / "out")
    told = description(tmp_path / "out")
    assert Preprocess.model_validate(told["preprocess"]) == predictor_of(model).preprocess
    assert {"task": told["task"], "channels": told["channels"], "regions": told["regions"]} == RETINA
    assert told["threshold"] == 0.5 and told["input"] == ["batch", 3, 32, 32]
    assert (told["gate"], told["gamma"], told["selector_outputs"]) == ("threshold", 0.6, ["probabilities", "model"])
    assert told["selector_classes"] == told["sites"] == ["site-1", "site-2", "site-3"]
    assert set(told["sha256"]) == {*told["models"].values(), told["selector"]}


def test_without_a_selector_there_is_no_gamma(tmp_path: Path) -> None:
    model = constant_super_model({"global": [True]}, mode="global", task=PROSTATE)
    export(saved(model, tmp_path / "model"), "monai-bundle", tmp_path / "out")
    told = description(tmp_path / "out")
    assert {told[key] for key in ("selector", "selector_classes", "selector_outputs", "gate", "gamma")} == {None}
    assert "selector" not in json.loads((tmp_path / "out/configs/inference.json").read_text(encoding="utf-8"))


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_missing_super_model_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["export", str(tmp_path / "none"), "--to", "pt2", "--out", str(tmp_path / "out")])
    assert code == 2 and "no such folder" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_unknown_target_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(FedSuperError, match="--to torchscript.*monai-bundle, onnx, pt2, card"):
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


@pytest.mark.parametrize(
    ("stop", "told"),
    [(OSError(28, "No space left on device"), FedSuperError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_an_export_that_is_stopped_leaves_nothing(
    stop: BaseException, told: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(program: Any, path: Path) -> None:
        Path(path).write_bytes(b"half")
        raise stop

    monkeypatch.setattr(torch.export, "save", half)
    folder = saved(constant_super_model({"global": [True]}, mode="global", task=PROSTATE), tmp_path / "model")
    with pytest.raises(told):
        export(folder, "pt2", tmp_path / "deep" / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
