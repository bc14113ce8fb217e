"""A study is checked before any work; every mistake is one line that names the key."""

import pytest
import yaml

from fedsuper.config import Study
from fedsuper.config.reading import change_method, parse_study, read_study
from fedsuper.errors import FedSuperError


def test_a_method_alone_is_a_study() -> None:
    study = parse_study({"method": "fedsm"})
    assert study == parse_study({}) == Study()


def test_the_documented_study_is_valid_and_survives_json() -> None:
    study = parse_study(yaml.safe_load("""
        method: fedsm
        rounds: 30
        local_epochs: 1
        image_size: 128
        batch_size: 4
        seed: 0
        optimizer: {name: adam, lr: 0.001, state: keep}
        model: {name: unet, channels: [16, 32, 64, 128, 256], residual_units: 2, norm: instance}
        selector: {net: small, optimizer: server-adam, lr: 0.003}
        fedsm: {lambda: 0.7, personal: softpull, gamma: auto}
    """))
    assert study.rounds == 30
    assert parse_study(study.to_json()) == study
    assert parse_study({**study.to_json(), "fedsm": {}}) == study  # defaults spelled out change nothing


def test_each_method_keeps_its_own_knobs() -> None:
    study = parse_study({"method": "fedavg", "fedsm": {"lambda": 0.5}})
    assert change_method(study, "fedsm").knobs["fedsm"]["lambda"] == 0.5


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"methd": "fedsm"}, ["unknown key", "methd"]),
        ({"optimizer": {"learning_rate": 1}}, ["unknown key", "optimizer.learning_rate"]),
        ({"fedsm": {"lamda": 0.5}}, ["unknown key", "lamda"]),
        ({"knobs": {"fedsm": {}}}, ["knobs"]),
        ({"method": "fedmagic"}, ["fedmagic", "fedavg"]),
        ({"rounds": 0}, ["rounds", "at least 1"]),
        ({"rounds": -3}, ["rounds"]),
        ({"rounds": "many"}, ["rounds"]),
        ({"fedsm": {"lambda": 1.2}}, ["lambda", "1.2"]),
        ({"fedsm": {"lambda": -0.1}}, ["lambda", "-0.1"]),
        ({"fedsm": {"gamma": 1.5}}, ["gamma", "1.5"]),
        ({"fedsm": {"gamma": -1}}, ["gamma", "-1"]),
        ({"image_size": 0}, ["image_size"]),
        ({"optimizer": {"lr": 0}}, ["optimizer.lr"]),
        ({"model": {"channels": [16]}}, ["model.channels", "at least 2"]),
        ({"model": {"channels": [16, 0]}}, ["model.channels.1", "(got 0)"]),
        ({"model": {"strides": [2, 2, 2, 0]}}, ["model.strides.3", "(got 0)"]),
        ({"model": {"strides": [2, 2]}}, ["model: strides", "(4)"]),
        ({"model": {"name": "vnet"}}, ["model.name", "vnet", "plain-unet"]),
        ({"model": {"name": ["unet"]}}, ["model.name", "unet"]),
        ({"model": "unet"}, ["model", "section", "unet"]),
        ({"model": {"name": "plain-unet", "strides": [2, 2]}}, ["model.strides", "plain-unet", "channels, norm"]),
        ({"model": {"name": "plain-unet", "residual_units": 2}}, ["model.residual_units", "no such knob"]),
        ({"model": {"channels": [16, 100000, 100000]}}, ["model", "weights", "narrower"]),
        ({"model": {"channels": [8] * 40}}, ["model.channels"]),
        ({"image_size": 40}, ["image_size 40", "multiple of 16"]),
        ({"image_size": 32, "model": {"channels": [4] * 6}}, ["image_size 32", "at least 64"]),
        ({"optimizer": {"betas": [0.9, 1.5]}}, ["optimizer.betas.1", "1.5"]),
        ({"compute": {"torch_threads": 100000}}, ["compute.torch_threads", "256"]),
        ({"optimizer": {"lr": float("inf")}}, ["optimizer.lr", "finite"]),
        ({"selector": {"net": "resnet"}}, ["selector.net", "small, vgg11"]),
        ({"augment": {"intensity": 2}}, ["augment.intensity", "(got 2)"]),
        ({"augment": {"scale": 0.95}}, ["augment.scale", "0.95"]),
        ({"augment": {"noise": 20}}, ["augment.noise", "20"]),
        ({"preprocess": {"normalize": "max"}}, ["preprocess.normalize", "zscore"]),
        ({"seed": "x" * 5000}, ["seed", "..."]),
        (["method"], ["mapping"]),
    ],
)
def test_mistakes_are_one_line(raw: object, words: list[str]) -> None:
    with pytest.raises(FedSuperError) as caught:
        parse_study(raw)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_studies_from_before_nets_had_schemas_are_still_read() -> None:
    """They spell `normalise`, and state for every net what only some have, with a value that says nothing."""
    old = {"name": "plain-unet", "channels": [4, 8], "strides": None, "residual_units": 0, "norm": "batch"}
    study = parse_study({"model": old, "preprocess": {"normalise": "minmax"}, "routing": {"normalise": False}})
    assert study.model.to_json() == {"name": "plain-unet", "channels": [4, 8], "norm": "batch"}
    assert study.routing.normalize is False
    assert study.preprocess.normalize == "minmax" and parse_study(study.to_json()) == study


def test_overrides_reach_nested_keys(tmp_path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("method: fedavg\noptimizer: {lr: 0.1}\n")
    study = read_study(path, ["optimizer.lr=0.5", "fedsm.lambda=0.4", "rounds=auto", "model.channels=[4, 8]"])
    assert (study.optimizer.lr, study.knobs["fedsm"]["lambda"], study.rounds) == (0.5, 0.4, "auto")
    assert study.model.to_json()["channels"] == [4, 8]


@pytest.mark.parametrize("override", ["rounds", "=3", "rounds.x=3", "optimizer..lr=1", "nothing.here=1"])
def test_bad_overrides_are_one_line(tmp_path, override: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("rounds: 3\n")
    with pytest.raises(FedSuperError) as caught:
        read_study(path, [override])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"a: [1", b"\xff\xfe\x00", b"- 1\n- 2\n", b"\tmethod: x"])
def test_files_that_are_no_study(tmp_path, content: bytes) -> None:
    path = tmp_path / "study.yaml"
    path.write_bytes(content)
    with pytest.raises(FedSuperError) as caught:
        read_study(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def test_a_missing_study_names_the_path(tmp_path) -> None:
    with pytest.raises(FedSuperError, match="absent.yaml"):
        read_study(tmp_path / "absent.yaml")


def test_the_reference_lists_every_key_with_its_default() -> None:
    import json
    import re
    from pathlib import Path

    text = (Path(__file__).parents[3] / "docs" / "reference" / "study.md").read_text()
    told = {key: value for key, value in re.findall(r"^\| `([a-z_.]+)` \| `([^`]*)` \|", text, re.M)}
    defaults = {}
    for key, value in Study().to_json().items():
        if isinstance(value, dict):
            defaults |= {f"{key}.{inner}": entry for inner, entry in value.items()}
        else:
            defaults[key] = value
    assert told == {key: value if isinstance(value, str) else json.dumps(value) for key, value in defaults.items()}
