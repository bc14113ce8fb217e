"""Any study as an NVFlare job: run it, or export it, with NVFlare's recipe API.

    python jobs/job.py study.yaml --data ROOT --sites 3             on NVFlare's simulator (SimEnv)
    python jobs/job.py study.yaml --data ROOT --env poc             on NVFlare's own POC (PocEnv)
    python jobs/job.py study.yaml --env prod --kit KIT              on a running federation (ProdEnv)
    python jobs/job.py study.yaml --export --export-dir DIR         only write DIR/fedsuper-<method>
    python jobs/job.py --refresh                                    write the job folders beside this file again
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from nvflare.recipe import PocEnv, ProdEnv, SimEnv

from fedsuper.config.reading import read_study
from fedsuper.engines.flare.inference_recipe import EvaluationRecipe, InferenceRecipe
from fedsuper.engines.flare.job import write_job, write_recipe
from fedsuper.engines.flare.recipe import FedSuperRecipe

HERE = Path(__file__).parent
TRIAL = HERE / "trial.yaml"
METHODS = ("fedsm", "iop-fl", "fedavg")


def refresh(folder: Path = HERE) -> None:
    """The jobs of the repository: training with the trial study, and the super model in use."""
    for method in METHODS:
        write_job(read_study(TRIAL, [f"method={method}"]), folder / method)
    for mode in ("select", "route"):
        write_recipe(InferenceRecipe(mode), folder / f"inference-{mode}")
    write_recipe(EvaluationRecipe(), folder / "evaluate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, nargs="?", default=TRIAL, metavar="STUDY.yaml")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--env", choices=["sim", "poc", "prod"], default="sim")
    parser.add_argument("--data", help="the data root, where all sites are on this machine")
    parser.add_argument("--sites", type=int, default=2, help="how many sites, for sim and poc")
    parser.add_argument("--kit", type=Path, help="the start-up kit of an admin, for prod")
    parser.add_argument("--workspace", default="runs/simulation", help="where the simulator works")
    parser.add_argument("--refresh", action="store_true")
    options = parser.parse_args()
    if options.refresh:
        return refresh()
    if options.data:
        os.environ["FEDSUPER_DATA"] = options.data

    recipe = FedSuperRecipe(read_study(options.study, options.overrides))
    if options.env == "sim":
        env = SimEnv(num_clients=options.sites, workspace_root=options.workspace)
    elif options.env == "poc":
        env = PocEnv(num_clients=options.sites)
    else:
        env = ProdEnv(startup_kit_location=str(options.kit), username=options.kit.name)
    print(recipe.execute(env).get_result())


if __name__ == "__main__":
    main()
