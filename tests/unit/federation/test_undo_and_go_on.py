"""Runs that are ended, undone, poisoned or short of a site go on; and who stands in the way is named."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from paper_sites import LIAR, SITES, PaperSites, bits, federate, paper_study
from tampering import put, whole

from fedsuper.config import Study
from fedsuper.core.state import State
from fedsuper.errors import FedSuperError
from fedsuper.federation.checkpoints import Resume
from fedsuper.federation.messages import DESCRIBE, TRAIN, Message, SiteFailure
from fedsuper.files import LOCK, PARTIAL, is_owned, owned


def test_a_run_that_never_got_to_a_checkpoint_is_resumed_from_its_beginning(tmp_path: Path) -> None:
    whole_run, _ = federate(PaperSites(paper_study("fedavg")), tmp_path / "whole")
    resumed, notes = federate(PaperSites(paper_study("fedavg")), tmp_path / "new", resume=True)
    assert bits(resumed) == bits(whole_run) and "nothing to resume yet" in notes


def shifted(state: State) -> State:
    return {name: tensor + 0.02 if tensor.is_floating_point() else tensor for name, tensor in state.items()}


def test_a_round_can_be_undone(tmp_path: Path) -> None:
    """Three rounds with a lie within reason in the last: going back to round 2 gives the honest run."""
    study = paper_study("fedavg", rounds=3)
    honest, _ = federate(PaperSites(study), tmp_path / "honest")
    lied, notes = federate(PaperSites(study, whole(shifted), TRAIN, 2), tmp_path / "lied")
    assert "warning" not in notes
    undone, _ = federate(PaperSites(study), tmp_path / "lied", resume=Resume(2))
    assert bits(lied) != bits(honest) == bits(undone)


def test_a_site_that_left_for_good_is_asked_no_more(tmp_path: Path) -> None:
    federate(PaperSites(paper_study("fedsm")), tmp_path)
    longer = PaperSites(paper_study("fedsm", rounds=4, federation={}))
    longer.present.remove(LIAR)
    needed = PaperSites(paper_study("fedsm", rounds=4, federation={"min_sites": 4}))
    needed.present.remove(LIAR)
    with pytest.raises(FedSuperError, match="federation.min_sites is 4, but the federation has 3"):
        federate(needed, tmp_path, resume=True)
    super_model, notes = federate(longer, tmp_path, resume=Resume(without=(LIAR,)))
    assert super_model.sites == list(SITES) and LIAR in super_model.personal, "what it gave stays"
    assert "3/4 sites" in notes and f"warning: {LIAR}" not in notes
    again, _ = federate(PaperSites(paper_study("fedsm", rounds=5)), tmp_path, resume=True)
    assert LIAR not in again.manifest["metrics"]["test"], "it stays away until the run is over"
    with pytest.raises(FedSuperError, match="--without nobody: there is no such site"):
        federate(longer, tmp_path, resume=Resume(without=("nobody",)))


def test_two_owners_of_one_folder_are_one_too_many(tmp_path: Path) -> None:
    torn = tmp_path / f"{PARTIAL}1.safetensors"
    torn.write_bytes(b"what a killed owner was about to write")
    with owned(tmp_path, "a run"), pytest.raises(FedSuperError, match="at work here already"):
        assert not torn.exists()
        federate(PaperSites(paper_study("fedavg")), tmp_path)
    federate(PaperSites(paper_study("fedavg")), tmp_path)


def test_a_look_at_a_run_neither_marks_it_nor_keeps_an_owner_out(tmp_path: Path) -> None:
    assert not is_owned(tmp_path) and not list(tmp_path.iterdir())
    (tmp_path / LOCK).touch()
    with open(tmp_path / LOCK, encoding="utf-8") as looking:
        fcntl.flock(looking, fcntl.LOCK_EX)
        release = threading.Timer(0.05, fcntl.flock, [looking, fcntl.LOCK_UN])
        release.start()
        with owned(tmp_path, "a run", patience=60):
            assert is_owned(tmp_path)
        release.join()


def test_the_lock_dies_with_its_process(tmp_path: Path) -> None:
    hold = ("import sys; from pathlib import Path; from fedsuper.files import owned\n"
            "with owned(Path(sys.argv[1]), 'a run'): print('held', flush=True); sys.stdin.read()")
    with subprocess.Popen([sys.executable, "-c", hold, str(tmp_path)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        with pytest.raises(FedSuperError, match=f"process {process.pid}"), owned(tmp_path, "a run"):
            pass
        process.kill()
        process.wait()
    with owned(tmp_path, "a run"):
        pass


@pytest.mark.parametrize("where", ["software|code", "software|torch", "study"])
def test_a_mismatch_stops_the_study_before_anybody_trains(where: str, tmp_path: Path) -> None:
    study = paper_study("fedavg", federation={})
    with pytest.raises(FedSuperError, match=f"^{LIAR}: cannot take part"):
        federate(PaperSites(study, put(where, "0" * 16), DESCRIBE), tmp_path)


def test_data_that_changed_before_a_resume_is_told_by_name(tmp_path: Path) -> None:
    federate(PaperSites(paper_study("fedavg")), tmp_path)
    changed = PaperSites(paper_study("fedavg", rounds=3), put("data", "cd" * 16), DESCRIBE)
    _, notes = federate(changed, tmp_path, resume=True)
    assert f"warning: {LIAR}: its images or labels are not those with which this run began" in notes
    assert "warning: amber" not in notes


def test_a_site_refused_round_after_round_is_reported(tmp_path: Path) -> None:
    class Always(PaperSites):
        def answer(self, task: str, site: str, message: Message) -> Message:
            reply = super().answer(task, site, message)
            return put("samples", "8")(reply) if (task, site) == (TRAIN, LIAR) else reply

    _, notes = federate(Always(paper_study("fedavg", rounds=3)), tmp_path)
    assert f"{LIAR}: refused 3 times running" in notes and "amber: refused" not in notes


def test_a_collapse_gives_no_checkpoint_and_says_how_to_undo_it(tmp_path: Path) -> None:
    class Fallen(PaperSites):
        def answer(self, task: str, site: str, message: Message) -> Message:
            reply = super().answer(task, site, message)
            fell = task == TRAIN and message.info["round"] == 3
            return put("metrics|val/global", 0.1)(reply) if fell else reply

    _, notes = federate(Fallen(paper_study("fedavg", rounds=4)), tmp_path)
    assert "the global model fell from 0.500 to 0.100" in notes and "--from-round 2" in notes
    assert sorted(path.name for path in tmp_path.glob("round-*")) == [f"round-0000{n}.safetensors" for n in (1, 2, 3)]
    _, notes = federate(PaperSites(paper_study("fedavg", rounds=4)), tmp_path, resume=Resume(2))
    assert "warning" not in notes


class Returning(PaperSites):
    """The liar of other tests is honest here, and away in some of the rounds of this run (counted from 0)."""

    def __init__(self, study: Study, away: set[int]) -> None:
        super().__init__(study)
        self.away = away

    @property
    def sites(self) -> list[str]:
        return [site for site in SITES if site != LIAR or self.asked.get(TRAIN, 0) not in self.away]

    def __call__(self, task: str, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | SiteFailure]:
        self.present = self.sites
        return super().__call__(task, messages, timeout)


def test_a_site_that_is_away_when_a_run_is_resumed_is_welcomed_back(tmp_path: Path) -> None:
    """It describes itself first, and the bits are those of a run in which it missed the same round."""
    whole_run, _ = federate(Returning(paper_study("fedsm", rounds=4), {2}), tmp_path / "whole")
    federate(PaperSites(paper_study("fedsm", rounds=2)), tmp_path / "run")
    again = Returning(paper_study("fedsm", rounds=4), {0})
    resumed, notes = federate(again, tmp_path / "run", resume=True)
    assert f"warning: {LIAR}: is away (it is not connected)" in notes and f"{LIAR}: is back" in notes
    assert again.asked["describe"] == 2
    assert bits(resumed) == bits(whole_run)
    assert [entry["missing"] for entry in resumed.manifest["history"]][2:4] == [[LIAR], []]
