"""The sites' scores: which model is the best so far, what the history keeps, and whether a model has collapsed."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from statistics import median

from fedsuper.core.state import Models
from fedsuper.methods.protocol.role import Role
from fedsuper.methods.protocol.server import Server

# `rounds: auto` counts only gains above this as progress; smaller ones are noise of a small validation set.
LEAST_GAIN = 0.001
# A shared model has collapsed where half of the sites see it fall below this share of its best, once that was worth
# something.
COLLAPSED, WORTH = 0.5, 0.3

Metrics = Mapping[str, Mapping[str, float]]


def note_scores(server: Server, roles: Sequence[Role], metrics: Metrics, sent: Mapping[str, Models]) -> None:
    """Scores describe the models that were *sent*: those are kept when they are the best so far."""
    for role in roles:
        known = server.scores.setdefault(role.name, {})
        fresh = {site: m[f"val/{role.name}"] for site, m in metrics.items() if f"val/{role.name}" in m}
        if not fresh:
            continue
        known.update(fresh)
        mean = math.fsum(known.values()) / len(known)
        if role.kind == "segmentation":
            leader = server.values.setdefault("progress", {}).setdefault(role.name, {"score": -1.0, "round": 0})
            if mean > leader["score"] + LEAST_GAIN:
                leader.update(score=mean, round=server.round)
        if role.holder == "site":
            continue
        for site in fresh if role.per_site else list(fresh)[:1]:
            if role.name in sent[site]:
                server.note_score(role.key(site), known[site] if role.per_site else mean, sent[site][role.name])


def record(server: Server, number: int, metrics: Metrics) -> None:
    """Add to the history; entry r describes the models sent in round r, the last one the final models."""
    missing = [site for site in server.sites if site not in metrics]
    told = {site: dict(values) for site, values in metrics.items()}
    server.history.append({"round": number, "sites": told, "missing": missing, "scores": copy.deepcopy(server.scores)})


def collapsed(server: Server, roles: Sequence[Role], metrics: Metrics) -> str | None:
    """A line on the shared model that was sent and has collapsed; the median of the sites' scores decides.

    The best median so far is kept, so that one site can neither hide a collapse nor make one up.
    """
    found = None
    for role in roles:
        scores = [m[f"val/{role.name}"] for m in metrics.values() if f"val/{role.name}" in m]
        if role.kind != "segmentation" or role.per_site or not scores:
            continue
        best = server.values.setdefault("best_median", {})
        now, before = median(scores), best.get(role.name, 0.0)
        best[role.name] = max(now, before)
        if before >= WORTH and now < COLLAPSED * before:
            found = (f"the {role.name} model fell from {before:.3f} to {now:.3f} validation Dice by the update of "
                     f"round {server.round}; no checkpoint is taken from it, and `--resume --from-round "
                     f"{max(0, server.round - 1)}` undoes that round")
    return found


def summary(server: Server, reporters: int) -> str:
    """A round in one line."""
    means = [f"{name} {math.fsum(by_site.values()) / len(by_site):.3f}" for name, by_site in server.scores.items()
             if by_site]
    return f"{reporters}/{len(server.sites)} sites  validation: " + ", ".join(means)
