"""`fedsuper run` as a user meets it: results, resume, and one line for every mistake."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fedsuper.cli import main
from fedsuper.config import Study
from fedsuper.config.reading import change_method
from fedsuper.engines.in_process import run_local
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.run_files.tables import read_features
from fedsuper.federation.checkpoints import load_latest
from fedsuper.federation.progress import Progress, Silent
from fedsuper.train.checkpoint import digest


def fingerprint_of(super_model) -> dict[str, str]:
    models = dict(super_model.experts()) | ({"selector": super_model.selector} if super_model.selector else {})
    return {name: digest(state) for name, state in models.items()}


def test_the_number_of_threads_does_not_change_a_bit(tiny_root: Path, tiny_study: Study, tmp_path: Path) -> None:
    one = run_local(tiny_study, tiny_root, tmp_path / "one", Silent(), threads=1)
    every = run_local(tiny_study, tiny_root, tmp_path / "every", Silent())
    assert fingerprint_of(one) == fingerprint_of(every)
    other = run_local(tiny_study.with_seed(1), tiny_root, tmp_path / "other", Silent())
    assert fingerprint_of(one) != fingerprint_of(other)


def test_run_writes_what_the_contract_names_and_refuses_to_write_over_it(
    tiny_root: Path, study_file: Path, tmp_path: Path, capsys
) -> None:
    out = tmp_path / "run"
    assert main(["run", str(study_file), "--data", str(tiny_root), "--out", str(out), "--engine", "local"]) == 0
    metrics = json.loads((out / "metrics.json").read_text())
    fedsm = metrics["methods"]["fedsm"]
    assert set(fedsm["per_site"]) == {"site-1", "site-2", "site-3"}
    assert set(fedsm["per_site"]["site-1"]) >= {"disc", "cup", "mean"}
    assert fedsm["client_avg"] == pytest.approx(sum(site["mean"] for site in fedsm["per_site"].values()) / 3)
    assert (out / "per_image.csv").exists()
    assert set(read_features(out, "fedsm")) == {"site-1", "site-2", "site-3"}
    manifest = json.loads((out / "supermodel" / "supermodel.json").read_text())
    assert manifest["sites"] == ["site-1", "site-2", "site-3"]
    assert 0 <= manifest["gamma"] <= 1 and manifest["gamma_curve"]
    assert {"task", "versions", "metrics", "provenance"} <= manifest.keys()
    capsys.readouterr()
    assert main(["run", str(study_file), "--data", str(tiny_root), "--out", str(out), "--engine", "local"]) == 2
    assert "--resume" in capsys.readouterr().err


def test_gamma_one_is_exactly_fedavg(tiny_root: Path, tiny_study: Study, tmp_path: Path) -> None:
    """FedSM's global model is FedAvg's, bit for bit: the three roles do not touch one another."""
    fedsm = run_local(tiny_study, tiny_root, tmp_path / "fedsm", Silent())
    fedavg = run_local(change_method(tiny_study, "fedavg"), tiny_root, tmp_path / "fedavg", Silent())
    assert digest(fedsm.global_model) == digest(fedavg.global_model)


def test_a_torn_checkpoint_falls_back_to_the_one_before(
    tiny_root: Path, tiny_study: Study, tmp_path: Path, capsys
) -> None:
    whole = run_local(tiny_study, tiny_root, tmp_path / "run", Silent())
    server = tmp_path / "run" / "server"
    newest = server / "round-00002.safetensors"
    newest.write_bytes(newest.read_bytes()[:1000])
    assert load_latest(server, tiny_study).round == 1
    assert "round-00002" in capsys.readouterr().err
    again = run_local(tiny_study, tiny_root, tmp_path / "run", Silent(), resume=True)
    assert fingerprint_of(again) == fingerprint_of(whole)
    for path in server.glob("*.safetensors"):
        path.write_bytes(b"torn")
    with pytest.raises(FedSuperError, match="no whole checkpoint"):
        load_latest(server, tiny_study)


def test_an_altered_checkpoint_is_noticed(tiny_root: Path, tiny_study: Study, tmp_path: Path) -> None:
    run_local(tiny_study, tiny_root, tmp_path / "run", Silent())
    server = tmp_path / "run" / "server"
    for path in (server / "models").glob("*.safetensors"):
        data = bytearray(path.read_bytes())
        data[-5] ^= 0xFF
        path.write_bytes(bytes(data))
    with pytest.raises(FedSuperError, match="digest"):
        load_latest(server, tiny_study)


def test_resume_wants_the_same_study(tiny_root: Path, tiny_study: Study, tmp_path: Path) -> None:
    run_local(tiny_study, tiny_root, tmp_path / "run", Silent())
    changed = tiny_study.model_copy(update={"batch_size": 2})
    with pytest.raises(FedSuperError, match="batch_size"):
        run_local(changed, tiny_root, tmp_path / "run", Silent(), resume=True)
    longer = tiny_study.model_copy(update={"rounds": 3})
    assert run_local(longer, tiny_root, tmp_path / "run", Silent(), resume=True).manifest["metrics"]["rounds"] == 3


def test_rounds_auto_stops_when_nothing_gains(tiny_root: Path, tiny_study: Study, tmp_path: Path) -> None:
    """A learning rate too small to learn anything: the study ends `patience` rounds after the last gain."""
    frozen = tiny_study.optimizer.model_copy(update={"lr": 1e-12})
    study = tiny_study.model_copy(update={"rounds": "auto", "patience": 2, "max_rounds": 9, "optimizer": frozen})
    assert run_local(study, tiny_root, tmp_path / "run", Silent()).manifest["metrics"]["rounds"] == 2


def test_lambda_below_one_over_k_is_a_warning(tiny_root: Path, tiny_study: Study, tmp_path: Path, capsys) -> None:
    study = tiny_study.model_copy(update={"rounds": 1, "knobs": {"fedsm": {"lambda": 0.1}}})
    run_local(study, tiny_root, tmp_path / "run", Progress("fedsm", 1))
    assert "below 1/K = 0.333" in capsys.readouterr().err


def broken_root(kind: str, tiny_root: Path, tmp_path: Path) -> Path:
    root = tmp_path / "root"
    if kind == "missing":
        return root
    if kind == "empty":
        root.mkdir()
        return root
    shutil.copytree(tiny_root, root)
    if kind == "no labels":
        shutil.rmtree(root / "site-2" / "labels")
    if kind == "no dataset.json":
        (root / "dataset.json").unlink()
    return root


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("missing", ["root"]),
        ("empty", ["root"]),
        ("no labels", ["site-2", "label"]),
        ("no dataset.json", ["dataset.json"]),
    ],
)
def test_a_broken_data_root_is_one_line(
    kind: str, words: list[str], tiny_root: Path, study_file: Path, tmp_path: Path, capsys
) -> None:
    root = broken_root(kind, tiny_root, tmp_path)
    code = main(["run", str(study_file), "--data", str(root), "--out", str(tmp_path / "out"), "--engine", "local"])
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert code == 2 and error.startswith("fedsuper: ")
    for word in words:
        assert word in error


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--set", "rouds=3"], ["unknown key", "rouds"]),
        (["--set", "fedsm.lambda=1.5"], ["lambda"]),
        (["--set", "fedsm.gamma=2"], ["gamma"]),
        (["--set", "rounds=0"], ["rounds"]),
        (["--set", "federation.min_sites=4"], ["min_sites is 4", "has 3"]),
        (["--set", "image_size=33"], ["image_size", "multiple of 2"]),
        (["--set", "compute.device=cuda:7"], ["cuda:7"]),
    ],
)
def test_a_bad_study_is_one_line_and_writes_nothing(
    extra: list[str], words: list[str], tiny_root: Path, study_file: Path, tmp_path: Path, capsys
) -> None:
    out = tmp_path / "out"
    assert main(["run", str(study_file), "--data", str(tiny_root), "--out", str(out), "--engine", "local", *extra]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("fedsuper: ") and all(word in error for word in words)
    assert not (out / "supermodel").exists()


@pytest.mark.parametrize(("kit", "words"), [([], "needs --kit"), (["--kit", "nowhere"], "is not an admin's")])
def test_a_wrong_kit_is_told_before_a_run_is_begun(kit: list[str], words: str, tmp_path: Path, capsys) -> None:
    (tmp_path / "study.yaml").write_text("method: fedavg\n")
    command = ["run", str(tmp_path / "study.yaml"), "--data", ".", "--out", str(tmp_path / "run"), "--engine", "prod"]
    assert main([*command, *kit]) == 2
    assert words in capsys.readouterr().err and not (tmp_path / "run").exists()
