"""The four doors for Python, documented in docs/reference/python.md; each loads what it needs when it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedsuper.config import Study
    from fedsuper.data.doctor.findings import Diagnosis
    from fedsuper.inference.loaded import LoadedSuperModel
    from fedsuper.studies.table import ComparisonTable


def load(folder: str | Path, settings: Sequence[str] = ()) -> LoadedSuperModel:
    """Open a super model; `settings` change how it predicts, for example `["prediction.tta=true"]`."""
    from fedsuper.inference.loaded import LoadedSuperModel

    return LoadedSuperModel(folder, settings)


def train(
    study: str | Path | Mapping[str, Any] | Study,
    data: str | Path,
    out: str | Path,
    engine: str = "local",
    resume: bool = False,
) -> LoadedSuperModel:
    """Train one study (a YAML file or its keys), score it on the test split, leave all in `out`; the super model opens.

    `engine` is `local` (in this process), `sim` or `poc` (NVFlare); all give the same weights, bit for bit.
    """
    from fedsuper.studies.run import run_study
    from fedsuper.studies.score import score_run

    run_study(_study(study), Path(data), Path(out), engine, resume=resume)
    score_run(Path(out), Path(data))
    return load(Path(out) / "supermodel")


def compare(
    data: str | Path,
    out: str | Path,
    methods: Sequence[str] = ("centralized", "local", "fedavg", "fedsm"),
    study: str | Path | Mapping[str, Any] | Study | None = None,
    seeds: Sequence[int] = (0,),
) -> ComparisonTable:
    """Train every method with every seed and score it; what is trained already is not trained again."""
    from fedsuper.studies.compare import Comparison, compare_and_tell
    from fedsuper.studies.table import ComparisonTable

    what = Comparison(_study(study or {}), Path(data), list(methods), list(seeds), Path(out))
    return ComparisonTable.read(Path(out), compare_and_tell(what))


def doctor(root: str | Path) -> Diagnosis:
    """Every problem of a data root, each with the file and the fix."""
    from fedsuper.data.doctor.examine import examine

    return examine(Path(root))


def _study(given: str | Path | Mapping[str, Any] | Study) -> Study:
    from fedsuper.config.reading import parse_study, read_study

    if isinstance(given, (str, Path)):
        return read_study(Path(given))
    return parse_study(dict(given)) if isinstance(given, Mapping) else given
