"""A hospital loses its power, comes back, or freezes for good: the others go on, and the command always returns."""

from __future__ import annotations

import time

from play import Play, Score
from provisioned import Provisioned

from fedsuper.inference.supermodel_manifest import read_manifest


def come_and_go(place: Provisioned, score: Score) -> None:
    """A site dies and is started again while the study runs."""
    show = Play(place, "sites", seed=3, rounds=60)
    pace = show.paced(place.sites[0])
    show.start()
    two = place.sites[1]
    at = show.round(1)
    with score.fault("a whole site killed: skipped after seconds, not waited for, the others go on"):
        place.kill_machine(two)
        at = show.sees(f"warning: {two}: left out of the round (it is not connected", at)
        started = time.monotonic()
        at = show.sees("2/3 sites", at)
        at = show.sees("2/3 sites", at)
        assert time.monotonic() - started < 200, "the rounds without it wait for it"
    with score.fault("the site started again: joins at a round's end"):
        with pace.held():
            place.start(two)
            at = show.sees(f"{two}: is connected again", at)
        at = show.sees("3/3 sites", at)
    with score.fault("the study ends with all of them"):
        show.ends()
        assert show.missing()[-1] == []
    score.settle(show, show.check_bits)


def newcomer(place: Provisioned, score: Score) -> None:
    """A site is started for the first time while the study runs; by name it is the first, its label is the last."""
    one, two, three = place.sites
    place.kill_machine(one)
    show = Play(place, "newcomer", seed=14, rounds=40, newcomers="welcome")
    pace = show.paced(two)
    show.start()
    at = show.round(1)
    with score.fault("a new site joins a running study at a round's end: the last label, and the bits of a run in one "
                     "process that it joins in the same round"):
        with pace.held():
            place.start(one)
            at = show.sees(f"{one}: is connected; it joins when this round has ended", at)
        at = show.sees(f"{one}: joins the study in round", at)
        at = show.sees("3/3 sites", at)
        show.ends()
        assert read_manifest(show.run / "supermodel")["sites"] == [two, three, one]
    score.settle(show, show.check_bits)


def frozen(place: Provisioned, score: Score) -> None:
    """A site freezes and stays frozen until the study is over."""
    show = Play(place, "frozen", seed=4, rounds=6)
    pace = show.paced(place.sites[0])
    show.start()
    three = place.sites[2]
    show.round(1)
    with pace.held():
        thaw = place.freeze(three)
    try:
        with score.fault("a whole site frozen to the end: the study is done and the command returns"):
            show.ends(seconds=240)
            assert show.missing()[-2:] == [[three], [three]], show.missing()
    finally:
        thaw()
    score.settle(show, show.check_bits)


def too_few(place: Provisioned, score: Score) -> None:
    """Fewer sites than the study needs."""
    show = Play(place, "few", seed=5, rounds=6, min_sites=3)
    pace = show.paced(place.sites[1])
    show.start()
    one = place.sites[0]
    at = show.round(1)
    with score.fault("fewer sites than min_sites: one line that names the site, and nothing is averaged"):
        with pace.held():
            thaw = place.freeze(one)
        try:
            at = show.sees("of 3 sites gave a usable update, 3 are needed", at)
            show.ends(code=2)
        finally:
            thaw()
    with score.fault("resumed when the site is back"):
        show.start("--resume")
        show.ends()
        assert all(missing == [] for missing in show.missing())
    score.settle(show, show.check_bits)
