"""Every file and folder of a run, by name.

`fedsuper run` leaves `study.yaml`, `state/`, `supermodel/`, `rounds.csv` (bytes and seconds of every round),
`metrics.json`, `per_image.csv`, `measurements.csv`, `examples/`, `features.csv` and `data.json`; `fedsuper compare`
leaves `compare.json` and such a folder for each cell (a row of the table with one seed) in `runs/<row>/seed-<n>/`;
`--leave-out` also `unseen.json`, `fedsuper sweep` also `sweep.json`. What `--with` asks for has files of its own:
`loss_surface.json`, `routing.json`, `inside.json`, `inversion/`.
"""

from __future__ import annotations

from pathlib import Path

STUDY = "study.yaml"
STATE = "state"
SUPER_MODEL = "supermodel"
METRICS = "metrics.json"
PER_IMAGE = "per_image.csv"
EXAMPLES = "examples"
EXAMPLES_INDEX = "index.json"
FEATURES = "features.csv"
MEASUREMENTS = "measurements.csv"
COMPARE = "compare.json"
UNSEEN = "unseen.json"
SWEEP = "sweep.json"
OUTSIDE = "outside.json"
LOSS_SURFACE = "loss_surface.json"
ROUNDS = "rounds.csv"
ROUTING = "routing.json"
INSIDE = "inside.json"
DATA = "data.json"
INVERSION = "inversion"
INVERSION_INDEX = "index.json"
RUNS = "runs"


def cell(run: Path, row: str, seed: int) -> Path:
    """The folder of one row of a comparison with one seed."""
    return Path(run) / RUNS / row / f"seed-{seed}"
