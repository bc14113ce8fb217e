"""A super model at work at the sites, wherever they are: simulator, POC, production."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TextIO

from fedsuper.data.layout import find_sites
from fedsuper.engines.flare import settings
from fedsuper.engines.flare.inference_recipe import ServingRecipe
from fedsuper.engines.flare.launch.events import RESULT, EventReader
from fedsuper.engines.flare.launch.one_machine import OneMachine
from fedsuper.engines.flare.launch.poc import on_poc, refuse_threads
from fedsuper.engines.flare.launch.prod import submit
from fedsuper.engines.flare.launch.simulator import simulate
from fedsuper.errors import FedSuperError
from fedsuper.federation.progress import Progress
from fedsuper.files import atomic_write_json, read_json

Engine = Literal["sim", "poc", "prod"]


def serve(engine: Engine, recipe: ServingRecipe, super_model: Path, data_root: Path, out: Path,
          stream: TextIO | None = None, threads: int | None = None, gpus: str | None = None,
          kit: Path | None = None) -> dict[str, Any]:
    """Run an inference or an evaluation; what the sites told is returned and left in `out/sites.json`.

    On one machine masks are in `out/sites/SITE/outbox`; in production each site keeps them in its own outbox.
    """
    out = Path(out).absolute()
    reader = EventReader(Progress(recipe.title, None, stream))
    if engine == "prod":
        if kit is None:
            raise FedSuperError("--engine prod: needs --kit, the folder of the admin's start-up kit")
        return _keep(submit(recipe, out, kit, reader) / RESULT, out)
    super_model, data_root = Path(super_model).absolute(), Path(data_root).absolute()
    gone = out / "state" / "gone"
    gone.unlink(missing_ok=True)
    place = OneMachine(find_sites(data_root), data_root, out, gpus, {
        settings.SUPER_MODEL: str(super_model),
        settings.KEPT: str(super_model.parent / "state" / "sites"),
        settings.OUTBOX: str(out / "sites"),
        settings.GONE: str(gone),
    })
    if engine == "poc":
        refuse_threads(threads)
        return _keep(on_poc(place, lambda lead: submit(recipe, out, lead, reader)) / RESULT, out)

    def name_as_gone(site: str) -> None:
        with open(gone, "a", encoding="utf-8") as file:
            file.write(f"{site}\n")

    simulate(recipe, place, reader, out / RESULT, threads, name_as_gone)
    return _keep(out / RESULT, out)


def _keep(result: Path, out: Path) -> dict[str, Any]:
    told = read_json(result, "run it again")
    atomic_write_json(out / RESULT, told)
    return told
