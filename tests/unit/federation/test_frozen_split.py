"""A run keeps the split it began with: no image changes its part, whatever becomes of labels and files."""

from __future__ import annotations

import csv
import json
import logging
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedsuper.cli import main
from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.data import dataset, survey
from fedsuper.data.layout import find_sites
from fedsuper.data.splits import RATIOS, Split, split_folder
from fedsuper.data.synthetic.prostate import write_prostate
from fedsuper.data.task import read_task
from fedsuper.engines.in_process import run_local
from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import DESCRIBE, Message
from fedsuper.federation.progress import Progress, Silent
from fedsuper.federation.site_data import SiteData
from fedsuper.federation.site_worker import SiteWorker
from fedsuper.studies.run import run_study
from fedsuper.studies.score import evaluate_command, score_run

SITE = "site-1"


@pytest.fixture
def root(tiny_root: Path, tmp_path: Path) -> Path:
    """A federation whose files may be changed."""
    return Path(shutil.copytree(tiny_root, tmp_path / "root"))


def parts(split: Split) -> dict[str, list[str]]:
    return {part: [item.name for item in items] for part, items in split.items()}


def split_now(root: Path) -> dict[str, list[str]]:
    return parts(split_folder(root / SITE, read_task(root), RATIOS["fedsm"], 0))


def empty_the_cup(root: Path, site: str = SITE) -> None:
    """Correct one label so that a split made now would come out otherwise: its cup (2) becomes disc (1)."""
    before = split_now(root)
    for path in sorted((root / site / "labels").iterdir()):
        kept = path.read_bytes()
        values = np.array(Image.open(path))
        Image.fromarray(np.where(values == 2, 1, values).astype(np.uint8)).save(path)
        if split_now(root) != before:
            return
        path.write_bytes(kept)
    raise AssertionError("no label moves an image: the test shows nothing")


def scored_images(out: Path) -> list[str]:
    with open(out / "per_image.csv", encoding="utf-8", newline="") as file:
        return sorted(row["image"] for row in csv.DictReader(file) if row["site"] == SITE)


def trained_on(root: Path, state: Path, study: Study) -> dict[str, list[str]]:
    return parts(SiteData(SITE, root, state).splits(study)[root / SITE])


def test_a_corrected_label_moves_no_image_on_resume_or_evaluation(
    root: Path, tiny_study: Study, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    first = run_study(tiny_study, root, run, "local")
    before = split_now(root)
    empty_the_cup(root)
    assert split_now(root) != before
    assert trained_on(root, run / "state" / "sites" / SITE, tiny_study) == before
    longer = tiny_study.model_copy(update={"rounds": 3})
    again = run_study(longer, root, run, "local", resume=True)
    assert again.manifest["provenance"]["splits"] == first.manifest["provenance"]["splits"]
    assert trained_on(root, run / "state" / "sites" / SITE, tiny_study) == before
    score_run(run, root)
    assert scored_images(run) == before["test"]
    evaluate_command(run / "supermodel", root, tmp_path / "scores", "test", None, None)
    assert scored_images(tmp_path / "scores") == before["test"]


def test_a_new_run_makes_a_new_split_in_the_same_state(root: Path, tiny_study: Study, tmp_path: Path) -> None:
    worker = SiteWorker(SITE, root, tmp_path / "state")
    info = {"study": tiny_study.to_json(), "resume": False}
    first = worker.handle(DESCRIBE, Message(info=info)).info["splits"]
    empty_the_cup(root)
    assert worker.handle(DESCRIBE, Message(info=info | {"resume": True})).info["splits"] == first
    assert worker.handle(DESCRIBE, Message(info=info)).info["splits"] != first
    assert parts(worker.data.splits(tiny_study)[root / SITE]) == split_now(root)


def test_what_changed_is_told_by_name_at_the_site_and_by_number_at_the_server(
    root: Path, tiny_study: Study, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    run_local(tiny_study, root, tmp_path / "run", Silent())
    before = split_now(root)
    gone, old = before["train"][:2]
    for kind in ("images", "labels"):
        (path,) = (root / SITE / kind).glob(f"{gone}.*")
        path.unlink()
        (path,) = (root / SITE / kind).glob(f"{old}.*")
        path.rename(path.with_stem("renamed"))
    longer = tiny_study.model_copy(update={"rounds": 3})
    with caplog.at_level(logging.WARNING):
        run_local(longer, root, tmp_path / "run", Progress("fedsm", 3), resume=True)
    assert f"{gone}" in caplog.text and f"{old}" in caplog.text and "renamed" in caplog.text
    told = capsys.readouterr().err
    assert f"{SITE}: images since the split was frozen: 1 added, 2 removed" in told
    assert not any(name in told for name in (gone, "renamed"))
    now = trained_on(root, tmp_path / "run" / "sites" / SITE, tiny_study)
    assert now == before | {"train": [name for name in before["train"] if name not in (gone, old)]}


def test_a_site_that_lost_its_split_cannot_go_on_with_another(root: Path, tiny_study: Study, tmp_path: Path) -> None:
    run_local(tiny_study, root, tmp_path / "run", Silent())
    frozen = tmp_path / "run" / "sites" / SITE / "split.json"
    frozen.unlink()
    longer = tiny_study.model_copy(update={"rounds": 3})
    run_local(longer, root, tmp_path / "run", Silent(), resume=True)  # nothing changed: the same split again
    frozen.unlink()
    empty_the_cup(root)
    with pytest.raises(FedSuperError, match=rf"^{SITE}: cannot take part \(its images are not split as when"):
        run_local(longer, root, tmp_path / "run", Silent(), resume=True)


def test_a_super_model_away_from_its_run_is_not_scored_on_another_split(
    root: Path, tiny_study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_study(tiny_study, root, tmp_path / "run", "local")
    before = split_now(root)
    away = Path(shutil.copytree(tmp_path / "run" / "supermodel", tmp_path / "away" / "supermodel"))
    command = ["evaluate", str(away), "--data", str(root), "--out", str(tmp_path / "scores")]
    assert main(command) == 0
    empty_the_cup(root)
    capsys.readouterr()
    assert main(command) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("fedsuper: ")]
    assert len(told) == 1 and SITE in told[0] and "splits.json" in told[0]
    (root / SITE / "splits.json").write_text(json.dumps(before))
    assert main(command) == 0
    assert scored_images(tmp_path / "scores") == before["test"]


def test_each_label_is_read_once_to_describe_and_once_to_train(
    root: Path, tiny_study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Counter[Path] = Counter()
    plain = dataset.read_label

    def counting(path: Path, *rest: object) -> np.ndarray:
        read[path] += 1
        return plain(path, *rest)

    for module in (dataset, survey):
        monkeypatch.setattr(module, "read_label", counting)
    worker = SiteWorker(SITE, root, tmp_path / "state")
    worker.handle(DESCRIBE, Message(info={"study": tiny_study.to_json(), "resume": False}))
    labels = sorted((root / SITE / "labels").iterdir())
    assert sorted(read.elements()) == labels
    read.clear()
    used = [worker.data.samples(tiny_study, part) for part in ("train", "val", "train", "val")]
    assert sorted(path.stem for path in read.elements()) == sorted([*used[0].names, *used[1].names])


def test_a_site_counts_slices_before_round_one_as_in_every_round(tmp_path: Path) -> None:
    """Volumes were counted as files first and as slices later, which gave an absent site too small a share."""
    root = tmp_path / "root"
    write_prostate(root, sites=1, images=4, size=32, seed=0, difficulty="easy")
    study = parse_study({"image_size": 32})
    (site,) = find_sites(root)
    worker = SiteWorker(site, root, tmp_path / "state")
    told = worker.handle(DESCRIBE, Message(info={"study": study.to_json(), "resume": False})).info["samples"]
    assert told == {part: len(worker.data.samples(study, part)) for part in ("train", "val", "test")}
    assert told["train"] > 4
