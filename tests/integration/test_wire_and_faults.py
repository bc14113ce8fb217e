"""One run with the paper's nets: what a round really sends, and what happens when sites fail.

Tensors go NVFlare's way, as between machines: only so do its counts show what a line would carry.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from fedsuper.config.reading import parse_study
from fedsuper.engines.flare.job import write_job
from fedsuper.engines.flare.launch import one_machine
from fedsuper.engines.flare.launch.events import reader_for
from fedsuper.engines.flare.launch.simulator import simulate_folder
from fedsuper.evaluation.run_files.names import ROUNDS
from fedsuper.inference.artifact import load_super_model

LIMIT = 22.0  # megabytes per site and direction


@pytest.fixture(scope="module")
def run(pair_root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The paper's UNet and the small selector, three rounds; round 1 is sound, rounds 2 and 3 each lose a site."""
    folder = tmp_path_factory.mktemp("paper")
    net = {"name": "unet", "channels": [16, 32, 64, 128, 256], "residual_units": 2}
    study = parse_study({"method": "fedsm", "rounds": 3, "image_size": 32, "model": net, "selector": {"net": "small"}})
    job = folder / "job"
    write_job(study, job)
    shutil.copy(Path(__file__).parent / "wire_and_faults.py", job / "app" / "custom")
    server = job / "app" / "config" / "config_fed_server.json"
    described = json.loads(server.read_text())
    described["components"].append({"id": "meter", "path": "wire_and_faults.Meter", "args": {}})
    server.write_text(json.dumps(described))
    client = job / "app" / "config" / "config_fed_client.json"
    described = json.loads(client.read_text())
    described["executors"][0]["executor"]["path"] = "wire_and_faults.Saboteur"
    client.write_text(json.dumps(described))
    shown = io.StringIO()
    place = one_machine.for_study(study, pair_root, folder, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one_machine, "folder_in_memory", lambda: folder / "no such folder")
        simulate_folder(job, place, reader_for(study, shown, folder), folder / "supermodel")
    return folder, shown.getvalue()


def megabytes(folder: Path, moment: str, pool: str) -> float:
    """All bytes the server's job cell has counted in `pool` so far; NVFlare's own MB are 2**20 bytes."""
    stats = json.loads((folder / f"{moment}.json").read_text())[pool]["pool"]
    assert stats["unit"] == "MB"
    bins = [entry for entries in stats["cat_data"].values() for entry in entries if entry]
    return sum(entry["total"] for entry in bins) * 2**20 / 1e6


@pytest.mark.parametrize("pool, way", [("sent_msg_sizes@server.simulate_job", "bytes_down"),
                                       ("received_msg_sizes@server.simulate_job", "bytes_up")])
def test_a_round_of_fedsm_moves_at_most_22_megabytes_per_site_and_direction(
    run: tuple[Path, str], pool: str, way: str
) -> None:
    """And what the run tells of its traffic, whatever carried it, is what NVFlare counts on a line."""
    folder, _ = run
    moved = (megabytes(folder, "_round_done-0", pool) - megabytes(folder, "_round_started-0", pool)) / 2
    assert 10 < moved <= LIMIT, f"{moved:.1f} MB"
    with open(folder / ROUNDS, encoding="utf-8", newline="") as file:
        told = [int(row[way]) / 1e6 for row in csv.DictReader(file) if row["round"] == "1"]
    assert told == pytest.approx([moved, moved], rel=0.01)


def test_a_crash_and_a_poisoned_update_cost_their_site_the_round_and_nobody_else(run: tuple[Path, str]) -> None:
    folder, shown = run
    warnings = [line for line in shown.splitlines() if "warning: site-" in line]
    assert len(warnings) == 2
    assert "site-1: left out of the round (OSError; the site's log has the details" in warnings[0]
    assert "site-2" in warnings[1] and "changed on the way" in warnings[1], "a filter's NaN never reaches the average"
    history = load_super_model(folder / "supermodel").manifest["history"]
    assert [entry["missing"] for entry in history[:3]] == [[], ["site-1"], ["site-2"]]
    assert [line.partition("  ")[2][:9] for line in shown.splitlines() if ": round " in line] == [
        "2/2 sites", "1/2 sites", "1/2 sites"]
