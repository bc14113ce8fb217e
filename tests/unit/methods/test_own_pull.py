"""`lambda: auto`: every site finds its own share of SoftPull on its validation images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rehearsal import Accidents, CrashError, rehearse, small_study
from toy import MakeToy, Toy, samples, vector

from fedsuper.config.reading import parse_study
from fedsuper.core.aggregate import soft_pull
from fedsuper.core.state import State
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.methods.parts import own_pull
from fedsuper.methods.parts.own_pull import CENTER, RAW, SHARES
from fedsuper.methods.protocol.role import PERSONAL

AUTO = {"lambda": "auto"}


def auto(toy: MakeToy, **options: Any) -> Toy:
    return toy("fedsm", AUTO, selector={"kind": "statistics"}, lr=0.05, **options)


def use_dice(monkeypatch: pytest.MonkeyPatch, worth: Callable[[State], torch.Tensor]) -> None:
    """Every validation image has this Dice."""
    monkeypatch.setattr(own_pull, "image_dice", lambda site, state: worth(state).repeat(3))


def test_a_share_is_a_lambda(toy: MakeToy) -> None:
    """a w + (1 - a) mean is SoftPull with lambda = (a (K - 1) + 1) / K, from the raw uploads."""
    federation = auto(toy).rounds(2)
    raw = {name: federation.uploads[name][PERSONAL] for name in federation.data}
    for name in federation.data:
        site = federation.site(name)
        taken = federation.acting.candidates(site)[PERSONAL]
        share = SHARES[site.store.values["share"]]
        expected = soft_pull(raw, (share * (len(raw) - 1) + 1) / len(raw))[name]
        torch.testing.assert_close(vector(taken), vector(expected))


def test_what_scores_best_is_taken_and_of_equals_the_more_shared(
    toy: MakeToy, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = auto(toy).rounds(2)
    site = federation.site("site-0")
    center, raw = vector(site.received[CENTER]), vector(site.store.models[RAW])
    assert not torch.equal(center, raw)
    use_dice(monkeypatch, lambda state: -(vector(state) - raw).norm())
    federation.acting.candidates(site)
    assert SHARES[site.store.values["share"]] == 1
    site = federation.site("site-0")
    site.store.values.pop("pulled")
    use_dice(monkeypatch, lambda state: torch.tensor(0.5))
    federation.acting.candidates(site)
    assert SHARES[site.store.values["share"]] == 0


def test_a_site_unlike_the_others_keeps_its_own(toy: MakeToy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sites with the same solution and one with another, each scored by its own loss, image by image."""
    monkeypatch.setattr(own_pull, "image_dice", lambda site, state: -(
        site.segmentation(state).eval()(site.val.images) - site.val.masks).detach().square().flatten(1).sum(dim=1))
    federation = auto(toy, data=[samples(1, 6), samples(1, 6), samples(9, 40)]).rounds(12)
    own = {name: federation.site(name) for name in federation.data}
    for site in own.values():
        federation.acting.candidates(site)
    assert own["site-2"].store.values["share"] == len(SHARES) - 1


def test_an_absent_site_keeps_its_model_and_sends_it_into_no_mean(toy: MakeToy) -> None:
    federation = auto(toy).rounds(1)
    before = federation.stored(RAW, "site-1").clone()
    federation.round(absent=["site-1"])
    assert torch.equal(federation.stored(RAW, "site-1"), before)
    there = torch.stack([vector(federation.uploads[name][PERSONAL]) for name in ("site-0", "site-2")])
    torch.testing.assert_close(vector(federation.server.models[CENTER]), there.mean(dim=0))
    assert set(federation.finish().personal) == set(federation.data)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pull") / "root"
    write_retina(folder, sites=3, images=36, size=48, difficulty="easy")
    return folder


@pytest.mark.parametrize(("method", "personal"), [("fedsm", "auto"), ("fedsm-extra", "softpull")])
def test_a_study_says_what_each_site_took_and_a_broken_one_goes_on(
    root: Path, tmp_path: Path, method: str, personal: str
) -> None:
    study = parse_study(small_study(method).to_json() | {method: {"lambda": "auto", "personal": personal}
                                                         | ({"extra_rounds": 1} if method != "fedsm" else {})})
    whole = rehearse(study, root, tmp_path / "a")
    shares = whole.super_model.manifest["shares"]
    assert {site: sum(times.values()) for site, times in shares.items()} == dict.fromkeys(whole.super_model.sites, 2)
    assert all(times["0"] >= 1 for times in shares.values()), "in the first round there is nothing but the mean"
    with pytest.raises(CrashError):
        rehearse(study, root, tmp_path / "b", Accidents(crash=2))
    resumed = rehearse(study, root, tmp_path / "b", resume=True)
    assert resumed.bits == whole.bits and resumed.super_model.manifest["shares"] == shares
