"""Studies that were made to hang, to fill the memory or to say two things at once are refused in one line, at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedsuper.config.reading import read_study
from fedsuper.errors import FedSuperError

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefghijkl", "bcdefghijklm", strict=True))
HOSTILE = {
    "aliases that explode": (BOMB, "aliases"),
    "an alias of itself": ("method: &a [*a]\n", "aliases"),
    "brackets without end": ("method: " + "[" * 100_000, "levels of brackets"),
    "balanced brackets": ("method: " + "[" * 2000 + "]" * 2000, "levels of brackets"),
    "braces": ("model: " + "{a: " * 3000 + "}" * 3000, "levels of brackets"),
    "a key twice": ("rounds: 3\nrounds: 5\n", "'rounds' is there twice, line 2"),
    "an inner key twice": ("optimizer: {lr: 0.1, lr: 0.2}\n", "'lr' is there twice"),
    "methods that are a list": ("method: [fedsm, fedavg]\n", "known methods"),
    "methods that are a map": ("method: {fedsm: 1}\n", "known methods"),
    "a number of 5000 digits": ("rounds: " + "9" * 5000 + "\n", "digits"),
    "an object": ("method: !!python/object/apply:os.system [date]\n", "not a YAML file"),
    "fifty megabytes": ("#" + "x" * 50_000_000, "larger than"),
    "a net of 360 GB": ("model: {channels: [16, 100000, 300000]}\n", "narrower"),
    "strides of 0": ("model: {channels: [4, 8], strides: [0]}\n", "model.strides.0"),
    "betas out of range": ("optimizer: {betas: [1.5, -1]}\n", "optimizer.betas.0"),
    "gamma 2": ("fedsm: {gamma: 2}\n", "gamma"),
    "gamma abc": ("fedsm: {gamma: abc}\n", "gamma"),
    "no site at all": ("federation: {min_sites: 0}\n", "federation.min_sites"),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.timeout(20)
def test_a_hostile_study_is_one_line(kind: str, tmp_path: Path) -> None:
    text, words = HOSTILE[kind]
    path = tmp_path / "study.yaml"
    path.write_text(text)
    with pytest.raises(FedSuperError) as caught:
        read_study(path)
    assert words in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 700


@pytest.mark.parametrize("override", ["method=[fedsm]", "rounds=" + "9" * 5000, "model=" + "[" * 500])
def test_a_hostile_override_is_one_line(override: str) -> None:
    with pytest.raises(FedSuperError):
        read_study(None, [override])


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.mkdir(),
                                  lambda path: path.symlink_to(path.name)])
@pytest.mark.timeout(20)
def test_what_is_no_file_is_neither_read_nor_waited_for(make, tmp_path: Path) -> None:
    make(tmp_path / "study.yaml")
    with pytest.raises(FedSuperError):
        read_study(tmp_path / "study.yaml")
