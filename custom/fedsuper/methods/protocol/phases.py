"""Phases: stretches of rounds in which a method does one thing. Most methods have one, the study's training rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedsuper.config import Study
from fedsuper.methods.protocol.server import TRAINING, Server


@dataclass(frozen=True)
class Phase:
    """`rounds` None: as many as the study says (`rounds`, which may be `auto`)."""

    name: str
    rounds: int | None = None


TRAINING_ONLY = (Phase(TRAINING),)


def round_is_due(server: Server, phases: Sequence[Phase]) -> bool:
    """Whether another round follows; where a phase is over, the server moves on to the next one."""
    names = [phase.name for phase in phases]
    while _is_over(server, phases[names.index(server.phase)]):
        following = names.index(server.phase) + 1
        if following == len(phases):
            return False
        server.phase, server.phase_start = names[following], server.round
    return True


def planned_rounds(study: Study, phases: Sequence[Phase]) -> int | None:
    """The rounds of all phases; None where training ends by itself."""
    rounds = [study.rounds if phase.rounds is None else phase.rounds for phase in phases]
    return None if "auto" in rounds else sum(int(count) for count in rounds)


def _is_over(server: Server, phase: Phase) -> bool:
    rounds = server.study.rounds if phase.rounds is None else phase.rounds
    if rounds != "auto":
        return server.phase_round >= rounds
    gains = [int(entry["round"]) for entry in server.values.get("progress", {}).values()]
    waited = server.round - max(gains, default=0)
    return waited >= server.study.patience or server.round >= server.study.max_rounds
