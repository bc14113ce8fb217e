"""The study as the server sees it: describe, rounds, finish, hand over. One loop for every engine and method."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

from fedsuper import __version__
from fedsuper.config import Study
from fedsuper.core.state import Models, check_alike, check_finite
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.fingerprint import compare_fingerprints, describe_fingerprints
from fedsuper.data.task import Task
from fedsuper.engines.manifest import build_manifest
from fedsuper.engines.messages import DESCRIBE, FINISH, HANDOVER, SETTLE, TRAIN, Exchange, Message, SiteFailure
from fedsuper.engines.progress import Progress
from fedsuper.engines.server_files import load_latest, save_round
from fedsuper.errors import FedSuperError
from fedsuper.inference.gate import choose_gamma
from fedsuper.methods import create_method
from fedsuper.methods.server import Server, Update

# `rounds: auto` counts only gains above this as progress; smaller ones are noise of a small validation set.
LEAST_GAIN = 0.001


class Federation:
    """Drives one study over an `Exchange`; knows neither nvflare nor where the sites are."""

    def __init__(self, study: Study, exchange: Exchange, folder: Path, progress: Progress) -> None:
        self.study = study
        self.exchange = exchange
        self.folder = Path(folder)
        self.progress = progress
        self.method = create_method(study)
        self.server: Server | None = None

    def run(self, resume: bool = False) -> SuperModel:
        """The whole study; with `resume`, from the last complete round in `folder`."""
        server = load_latest(self.folder, self.study) if resume else None
        described = self._describe(server)
        self.server = server = server or self._start(described)
        for warning in self.method.check(server.sites):
            self.progress.note(f"warning: {warning}")
        while not self._done(server):
            self._round(server)
            save_round(self.folder, server)
        return self._hand_over(server)

    # --- before round 1 -------------------------------------------------------------------------------------------

    def _describe(self, server: Server | None) -> dict[str, dict[str, Any]]:
        sites = server.sites if server else sorted(self.exchange.sites)
        if not sites:
            raise FedSuperError("no site is connected; start the sites and submit again")
        replies = self._ask(DESCRIBE, {site: Message() for site in sites})
        described = {}
        for site, reply in replies.items():
            if isinstance(reply, SiteFailure):
                raise FedSuperError(f"{site}: cannot take part ({reply.reason}); mend it or leave the site out")
            if reply.info["version"] != __version__:
                raise FedSuperError(
                    f"{site}: runs FedSuper {reply.info['version']}, the server {__version__}; "
                    "install the same version everywhere"
                )
            described[site] = reply.info
        tasks = {site: Task.from_json(info["task"]) for site, info in described.items()}
        first = next(iter(tasks))
        for site, task in tasks.items():
            if task != tasks[first]:
                raise FedSuperError(
                    f"{site}: its dataset.json describes {task.to_json()}, {first} has "
                    f"{tasks[first].to_json()}; all sites need the same channels and regions"
                )
        prints = {site: info["fingerprint"] for site, info in described.items()}
        problems = compare_fingerprints(prints, tasks[first])
        if problems:
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            raise FedSuperError(f"{problems[0]}{more}; nobody has trained yet")
        for line in describe_fingerprints(prints).splitlines():
            self.progress.note(line)
        return described

    def _start(self, described: dict[str, dict[str, Any]]) -> Server:
        sites = sorted(described)
        server = Server(
            study=self.study,
            task=Task.from_json(described[sites[0]]["task"]),
            sites=sites,
            samples={site: described[site]["samples"]["train"] for site in sites},
            values={"described": described},
        )
        server.models = self.method.start(server)
        return server

    # --- one round ------------------------------------------------------------------------------------------------

    def _done(self, server: Server) -> bool:
        extra = self.method.rounds()
        if self.study.rounds != "auto":
            return server.round >= self.study.rounds + extra
        settled = server.values.get("settled_round")
        if settled is None:
            gains = [int(entry["round"]) for entry in server.values.get("progress", {}).values()]
            waited = server.round - max(gains, default=0)
            if waited < self.study.patience and server.round < self.study.max_rounds:
                return False
            settled = server.values["settled_round"] = server.round
        return server.round >= settled + extra

    def _round(self, server: Server) -> None:
        sent = {site: self.method.downlink(server, site) for site in server.sites}
        replies = self._ask(TRAIN, {site: Message(sent[site], self._info(server, site)) for site in server.sites})
        updates = self._accept(replies, sent)
        self._note_scores(server, {site: update.metrics for site, update in updates.items()}, sent)
        server.samples |= {site: update.samples for site, update in updates.items()}
        server.models |= self.method.aggregate(server, updates)
        server.round += 1
        server.accepted |= dict.fromkeys(updates, server.round)
        self._record(server, server.round, {site: update.metrics for site, update in updates.items()})
        self.progress.round(server.round, self._summary(server, len(updates)))

    def _record(self, server: Server, number: int, metrics: dict[str, dict[str, float]]) -> None:
        """Add to the history; entry r describes the models sent in round r, the last one the final models."""
        missing = [site for site in server.sites if site not in metrics]
        scores = copy.deepcopy(server.scores)
        server.history.append({"round": number, "sites": metrics, "missing": missing, "scores": scores})

    def _info(self, server: Server, site: str) -> dict[str, Any]:
        return {
            "label": server.label(site),
            "sites": server.sites,
            "round": server.round,
            "extra": server.extra,
            "accepted": server.accepted.get(site, 0),
            "task": server.task.to_json(),
        }

    def _ask(self, task: str, messages: dict[str, Message]) -> dict[str, Message | SiteFailure]:
        for message in messages.values():
            message.info = {"study": self.study.to_json(), **message.info}
        replies = self.exchange(task, messages, self.study.federation.round_timeout)
        return {site: replies.get(site, SiteFailure("no answer")) for site in messages}  # label order

    def _accept(self, replies: dict[str, Message | SiteFailure], sent: dict[str, Models]) -> dict[str, Update]:
        """The usable updates in label order; a failed or poisoned one costs its site the round, nobody else."""
        updates: dict[str, Update] = {}
        problems: list[str] = []
        for site, reply in replies.items():
            try:
                if isinstance(reply, SiteFailure):
                    raise FedSuperError(f"{site}: left out of the round ({reply.reason})")
                for role, state in reply.models.items():
                    known = sent[site].get(role)  # None: something that only comes up
                    check_alike(state, state if known is None else self.method.returned(role, known), site)
                if not reply.info.get("samples", 0) > 0:
                    raise FedSuperError(
                        f"{site}: reports {reply.info.get('samples')} training samples; left out of the round"
                    )
                updates[site] = Update(reply.models, int(reply.info["samples"]), reply.info["metrics"])
            except FedSuperError as problem:
                problems.append(str(problem))
                self.progress.note(f"warning: {problem}")
        if len(updates) < self.study.federation.min_sites:
            raise FedSuperError(
                f"only {len(updates)} of {len(replies)} sites gave a usable update, "
                f"{self.study.federation.min_sites} are needed; mend this and resume: {problems[0]}"
            )
        return updates

    def _note_scores(self, server: Server, metrics: dict[str, dict[str, float]], sent: dict[str, Models]) -> None:
        """Scores describe the models that were *sent*: those are kept when they are the best so far."""
        for role in self.method.roles():
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

    def _summary(self, server: Server, reporters: int) -> str:
        means = [
            f"{name} {math.fsum(by_site.values()) / len(by_site):.3f}"
            for name, by_site in server.scores.items()
            if by_site
        ]
        return f"{reporters}/{len(server.sites)} sites  validation: " + ", ".join(means)

    # --- after the last round -------------------------------------------------------------------------------------

    def _hand_over(self, server: Server) -> SuperModel:
        sent = {site: self.method.downlink(server, site) for site in server.sites}
        replies = self._ask(FINISH, {site: Message(sent[site], self._info(server, site)) for site in server.sites})
        answers: dict[str, Message] = {}
        for site, reply in replies.items():
            if isinstance(reply, SiteFailure):
                self.progress.note(f"warning: {site}: did not take part in the last validation ({reply.reason})")
                continue
            answers[site] = reply
        metrics = {site: answer.info["metrics"] for site, answer in answers.items()}
        self._note_scores(server, metrics, sent)
        self._record(server, server.round + 1, metrics)
        for site, answer in answers.items():
            for role in self.method.roles():
                if role.holder == "site" and role.name in answer.models:
                    check_finite(answer.models[role.name], site)
                    server.best_models[role.key(site)] = answer.models[role.name]
        super_model = self.method.super_model(server)
        super_model.manifest = build_manifest(server, super_model, self.method)
        self._settle(server, super_model)
        return super_model

    def _settle(self, server: Server, super_model: SuperModel) -> None:
        """Give every site the whole set once, choose gamma on their validation data, collect their test scores."""
        models = {f"expert/{name}": state for name, state in super_model.experts().items()}
        if super_model.selector is not None:
            models["selector"] = super_model.selector
        models |= {f"extra/{name}": state for name, state in super_model.extras.items()}
        info = {"manifest": super_model.manifest}
        replies = self._ask(HANDOVER, {s: Message(models, info | self._info(server, s)) for s in server.sites})
        curves = {
            site: reply.info["gamma"]
            for site, reply in replies.items()
            if isinstance(reply, Message) and reply.info.get("gamma")
        }
        if curves:
            super_model.manifest |= choose_gamma(curves, getattr(self.method.knobs, "gamma", "auto"))
        replies = self._ask(
            SETTLE, {s: Message({}, {"manifest": super_model.manifest} | self._info(server, s)) for s in server.sites}
        )
        super_model.manifest["metrics"]["test"] = {
            site: reply.info["scores"] for site, reply in replies.items() if isinstance(reply, Message)
        }
