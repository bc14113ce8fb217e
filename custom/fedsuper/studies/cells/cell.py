"""One run of a comparison: a study on a data root in a folder of its own. Finished ones are kept."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.run_files.names import STATE, SUPER_MODEL
from fedsuper.federation.checkpoints import has_checkpoint
from fedsuper.inference.supermodel_manifest import MANIFEST, read_manifest
from fedsuper.methods import method_class
from fedsuper.studies.run import run_study


@dataclass(frozen=True)
class Cell:
    """A row of a comparison with one seed; `row` and `seed` say which, `folder` is where it lies."""

    row: str
    seed: int
    study: Study
    data_root: Path
    folder: Path
    engine: str = "local"
    threads: int | None = None
    about: str = ""

    @property
    def name(self) -> str:
        """How the cell is called on a terminal."""
        return f"{self.row}, seed {self.seed}{self.about}"

    @property
    def finished(self) -> bool:
        """Whether its super model is there; one of another study is an error."""
        if not (self.folder / SUPER_MODEL / MANIFEST).exists():
            return False
        if read_manifest(self.folder / SUPER_MODEL)["study"] != self.study.to_json():
            raise FedSuperError(
                f"{self.folder}: holds a run of another study; give another --out, or remove the folder"
            )
        return True

    def train(self) -> None:
        """Run the study unless it is finished; an unfinished run is resumed."""
        if self.finished:
            return
        # Pooled training is not a federation: it has no place on NVFlare.
        engine = "local" if method_class(self.study.method).pooled else self.engine
        resume = has_checkpoint(self.folder / STATE / "server")
        if not resume and self.folder.exists():
            shutil.rmtree(self.folder)
        run_study(self.study, self.data_root, self.folder, engine, self.threads, resume=resume)

    def to_json(self) -> dict[str, Any]:
        """For another process."""
        paths = {"data_root": str(self.data_root.absolute()), "folder": str(self.folder.absolute())}
        how = {"engine": self.engine, "threads": self.threads, "about": self.about}
        return {"row": self.row, "seed": self.seed, "study": self.study.to_json()} | how | paths

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Cell:
        """The inverse of `to_json`."""
        paths = {key: Path(value[key]) for key in ("data_root", "folder")}
        return cls(**(value | paths | {"study": parse_study(value["study"])}))
