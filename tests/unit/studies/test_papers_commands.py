"""Every command of docs/reference/papers.md, run on a tiny federation: what its row promises is there.

Commands run as they are written, with tiny nets and one round. A cell that an earlier command has trained (same study,
same sites) is copied, not trained again.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from matplotlib.figure import Figure

from fedsuper.cli.entry import main
from fedsuper.config import Study
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.report import page
from fedsuper.report.chapters import Chapter
from fedsuper.report.figures import picture
from fedsuper.report.sections.base import Section
from fedsuper.studies.cells import cell as training
from fedsuper.studies.privacy import inversion
from fedsuper.studies.ready import ready_study

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "papers.md").read_text(encoding="utf-8")
TINY = {
    "rounds": 1,
    "image_size": 32,
    "batch_size": 8,
    "model": {"channels": [4, 8], "residual_units": 0},
    "routing": {"epochs": 1, "radius": 2},
    "fedsm-extra": {"extra_rounds": 1},
    "fedsm-ensemble": {"extra_rounds": 1},
}
READY = ["rounds=1", "image_size=32", "model.channels=[4,8]", "batch_size=8", "selector.net=small", "routing.epochs=1"]
SITE = "site-2"


def rows() -> dict[str, list[list[str]]]:
    """Command -> the rows it makes."""
    found: dict[str, list[list[str]]] = {}
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for command in re.findall(r"`(fedsuper [^`]+)`", cells[2]) if line.startswith("| ") and len(cells) == 4 else []:
            found.setdefault(command, []).append(cells)
    return found


COMMANDS = rows()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three hospitals with eight images each."""
    folder = tmp_path_factory.mktemp("papers") / "root"
    write_retina(folder, sites=3, images=24, size=32, seed=0, difficulty="easy")
    return folder


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cells that were trained, and the run that `predict` takes its super model from."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(autouse=True)
def quick(kept: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Train a cell once, attack with two steps, and shorten the papers' long lists of rows."""
    really = training.run_study

    def once(study: Study, data_root: Path, out: Path, *rest: object, **named: object) -> None:
        sites = sorted(path.name for path in data_root.iterdir() if path.is_dir())
        known = kept / str(abs(hash(json.dumps([study.to_json(), sites], sort_keys=True))))
        if not known.exists():
            really(study, data_root, known, *rest, **named)  # type: ignore[arg-type]
        shutil.copytree(known, out)

    def fewer(name: str, overrides: Sequence[str]) -> ready_study.Ready:
        return replace(read(name, overrides), methods=["fedavg", "fedsm"], outside=["fedavg"], seeds=[0])

    read = ready_study.read_ready
    monkeypatch.setattr(training, "run_study", once)
    monkeypatch.setattr(ready_study, "read_ready", fewer)
    monkeypatch.setattr(inversion, "STEPS", 2)
    yield


def words_of(command: str, root: Path, run: Path, study: Path, trained: Path) -> list[str]:
    """The command with its capitals filled in."""
    places = {"ROOT": root, "RUN": run, "STUDY.yaml": study, "IMAGES": root / SITE / "images", "SITE": SITE,
              "RUN/supermodel": trained, "masks": run}  # fmt: skip
    words = [str(places.get(word, word)) for word in shlex.split(command)[1:]]
    if words[0] in ("compare", "sweep") and "--study" not in words:
        words += ["--config", str(study)]
    if words[0] in ("compare", "sweep"):
        words += ["--workers", "1"]
    if words[0] == "run":
        words += ["--engine", "local"]
    if "--study" in words:
        words += ["--out", str(run), *(part for change in READY for part in ("--set", change))]
    return words


class Drawn:
    """Draws the figures that rows promise, passes over the others, and remembers what every section offers."""

    def __init__(self, promised: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.promised = promised
        self.offered: set[str] = set()
        self.names: set[str] = set()
        self.sections_of, self.to_svg = page.sections_of, picture.to_svg
        monkeypatch.setattr(page, "sections_of", self._sections)
        monkeypatch.setattr(picture, "to_svg", self._svg)

    def _svg(self, made: Figure, name: str) -> str:
        wanted = any(f"{name}.png".endswith(file) for file in self.promised)
        return self.to_svg(made, name) if wanted else "<svg/>"

    def _sections(self, chapter: Chapter, prefix: str) -> list[Section]:
        found = self.sections_of(chapter, prefix)
        self.names |= {section.name for section in found}
        self.offered |= {f"{one.name.removeprefix(prefix)}.png" for section in found for one in section.pictures}
        return found


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_makes_what_its_rows_promise(
    command: str, root: Path, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, run, trained = tmp_path / "study.yaml", tmp_path / "run", kept / "supermodel"
    study.write_text(yaml.safe_dump(TINY))
    if "RUN/supermodel" in command and not trained.exists():
        assert main(["run", str(study), "--data", str(root), "--out", str(kept / "run"), "--engine", "local"]) == 0
        trained.symlink_to(kept / "run" / "supermodel")
    promised = [cells[3] for cells in COMMANDS[command]]
    files = {name for text in promised for name in re.findall(r"`([\w.-]+)`", text)}
    sections = {
        re.sub(r"\(.*\)", "", part).strip() for text in promised for part in text.split(",") if "`" not in part
    }
    drawn = Drawn(files, monkeypatch)
    assert main(words_of(command, root, run, study, trained)) == 0
    if sections and "--study" not in command:  # a ready study writes its report itself
        assert main(["report", str(run), "--out", str(run / "report.html")]) == 0
    assert sections <= drawn.names
    assert files <= drawn.offered | {path.name for path in run.rglob("*") if path.is_file()}
