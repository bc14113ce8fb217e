"""What is imported before the first site is born is all that a site imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import gc, io, sys
from pathlib import Path
from fedsuper.bench.whole_round import STUDY
from fedsuper.config.reading import parse_study
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.engines.flare.launch import warm_simulator
from fedsuper.engines.flare.launch.births.warmth import warm
from fedsuper.engines.in_process import run_local
from fedsuper.federation.progress import Progress

folder = Path(sys.argv[1])
write_retina(folder / "data", sites=2, images=24, size=32, seed=0)
warm_simulator.warm_up()
warm()
assert gc.isenabled() and gc.get_freeze_count() > 100_000
before = set(sys.modules)
study = parse_study(STUDY | {"rounds": 1, "image_size": 32, "model": {"channels": [4, 8]}})
run_local(study, folder / "data", folder / "run", Progress("", None, io.StringIO()))
print(*sorted(set(sys.modules) - before))
"""
# Nets are small; and a guard of torch's imports itself with the first optimizer.
SMALL = ("fedsuper.models.", "torch.profiler._cupti_monitor")


def test_a_warm_site_imports_nothing_more(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [name for name in done.stdout.split() if not name.startswith(SMALL)] == []
