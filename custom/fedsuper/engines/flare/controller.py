"""The server that trains, on NVFlare: drives any method through the engine-neutral `Federation`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from fedsuper.config.reading import parse_study
from fedsuper.engines.flare import settings
from fedsuper.engines.flare.contact.exchange import FlareExchange
from fedsuper.engines.flare.launch.events import SUPER_MODEL, ServerProgress, total_rounds
from fedsuper.engines.flare.reporting_controller import ReportingController
from fedsuper.federation.checkpoints import Resume
from fedsuper.federation.server_loop import Federation
from fedsuper.files import with_room
from fedsuper.inference.artifact import save_super_model

OWNER_PATIENCE = 60.0  # seconds for the process of a job that died to let go of the study's state
ROOM_PATIENCE = 600.0  # seconds for a full disk, as for a server that is out of reach


class SuperModelController(ReportingController):
    """Runs one study and leaves the super model in the job's run folder on the server, and beside its checkpoints.

    `study` is the study as plain JSON. The federation keeps its own checkpoints; `resume` goes on from the last one, or
    from the round, and without the sites, that it names.
    """

    def __init__(self, study: dict[str, Any], resume: bool | dict[str, Any] = False) -> None:
        super().__init__()
        self.study = study
        self.resume = resume
        self.federation: Federation | None = None

    @property
    def title(self) -> str:
        return str(self.study.get("method", "study"))

    def silent_sites(self) -> list[str]:
        if self.federation is None or self.federation.server is None:
            return []
        present = set(self.federation.exchange.sites)
        return [site for site in self.federation.server.sites if site not in present]

    def joinable_sites(self) -> list[str] | None:
        if self.federation is None or self.federation.server is None or not self.federation.newcomers.welcome:
            return None
        return list(self.federation.server.sites)

    def work(self, progress: ServerProgress, run_folder: Path, known: settings.Settings) -> None:
        """Train, then write the super model where an admin, a waiting command and a later inference job look for it."""
        study = parse_study(self.study)
        progress.total = total_rounds(study)
        state = settings.server_state_folder(known, study, run_folder)
        exchange = FlareExchange(self, self.hearts, study.federation.away_after, settings.places())
        self.federation = Federation(study, exchange, state, progress, self.pausing.is_set, OWNER_PATIENCE,
                                     ROOM_PATIENCE)
        super_model = self.federation.run(Resume.of(self.resume) or False)
        out = settings.from_environment(settings.OUT)
        for folder in (run_folder / SUPER_MODEL, state / SUPER_MODEL, out):
            if folder is not None:
                with_room(partial(save_super_model, super_model, folder), ROOM_PATIENCE, progress.note)
