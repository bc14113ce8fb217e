"""A study is checked before any work; every mistake is one line that names the key."""

import pytest
import yaml

from fedsuper.config import Study, parse_study, read_study
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
    assert study.rounds == 30 and study.knobs["fedsm"]["lambda"] == 0.7
    assert parse_study(study.to_json()) == study


def test_each_method_keeps_its_own_knobs() -> None:
    study = parse_study({"method": "fedavg", "fedsm": {"lambda": 0.5}})
    assert study.with_method("fedsm").knobs["fedsm"]["lambda"] == 0.5


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
        ({"model": {"channels": [16]}}, ["channels"]),
        (["method"], ["mapping"]),
    ],
)
def test_mistakes_are_one_line(raw: object, words: list[str]) -> None:
    with pytest.raises(FedSuperError) as caught:
        parse_study(raw)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_overrides_reach_nested_keys(tmp_path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("method: fedavg\noptimizer: {lr: 0.1}\n")
    study = read_study(path, ["optimizer.lr=0.5", "fedsm.lambda=0.4", "rounds=auto", "model.channels=[4, 8]"])
    assert (study.optimizer.lr, study.knobs["fedsm"]["lambda"], study.rounds) == (0.5, 0.4, "auto")
    assert study.model.channels == (4, 8)


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

    text = (Path(__file__).parents[2] / "docs" / "reference" / "study.md").read_text()
    told = {key: value for key, value in re.findall(r"^\| `([a-z_.]+)` \| `([^`]*)` \|", text, re.M)}
    defaults = {}
    for key, value in Study().to_json().items():
        if isinstance(value, dict):
            defaults |= {f"{key}.{inner}": entry for inner, entry in value.items()}
        else:
            defaults[key] = value
    assert told == {key: value if isinstance(value, str) else json.dumps(value) for key, value in defaults.items()}
