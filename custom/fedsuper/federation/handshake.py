"""Before round 1: does every site run the same software on data of the same task, split as before?

`federation.on_mismatch` decides what a site costs that does not fit: `stop` (nobody trains before it is fixed) or
`drop` (the study goes on without it).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from fedsuper.config import Study
from fedsuper.data.fingerprint import compare_fingerprints
from fedsuper.data.frozen_split import FROZEN_FILE
from fedsuper.data.task import Task
from fedsuper.errors import FedSuperError
from fedsuper.federation.door.admission import admit
from fedsuper.federation.door.replies import DescribeReply
from fedsuper.federation.message_schema import opened
from fedsuper.federation.messages import Message, SiteFailure
from fedsuper.federation.software import differences, software, study_digest
from fedsuper.methods.protocol.server import Server

REMEDY = "fix it, or leave the site out (--without, or federation.on_mismatch: drop)"


def check_attendance(study: Study, sites: Sequence[str]) -> None:
    """Refuse a study whose rounds would all have too few sites, before anybody trains."""
    needed = study.federation.min_sites
    if not sites:
        raise FedSuperError("no site is connected; start the sites and submit again")
    if len(sites) < needed:
        raise FedSuperError(
            f"federation.min_sites is {needed}, but the federation has {len(sites)} ({', '.join(sites)}); "
            "lower it, or connect more sites"
        )


class Handshake:
    """`described` are the sites that fit, in label order; `dropped` the others, with the reason.

    `server` is that of a resumed run, `pooled` whether one pseudo-site may speak for several folders.
    """

    def __init__(self, study: Study, server: Server | None = None, pooled: bool = False) -> None:
        self.study = study
        self.server = server
        self.pooled = pooled
        self.described: dict[str, DescribeReply] = {}
        self.dropped: dict[str, str] = {}
        self.absent: dict[str, str] = {}
        self.software = software()  # now, while the sites still start, not when they have answered
        self._refuse_with: Callable[[str, str], None] | None = None

    def shake(self, replies: Mapping[str, Message | SiteFailure]) -> dict[str, DescribeReply]:
        """The sites that fit; the first that does not is an error, unless the study drops such sites.

        A site of a resumed run that is not there is not one that does not fit: `federation.min_sites` decides whether
        the run goes on, and the site is welcomed when it is back.
        """
        there = {site: reply for site, reply in replies.items() if not (self.server and _absent(reply))}
        self.absent = {site: str(getattr(reply, "reason", "")) for site, reply in replies.items() if site not in there}
        self.described = admit(there, self._read, self._refuse)
        if self.described:
            self._compare(self.server.task if self.server else self.task_of(self.described))
        if not self.described:
            site, reason = next(iter((self.dropped | self.absent).items()))
            raise FedSuperError(f"no site can take part; {site}: {reason}")
        check_attendance(self.study, list(self.described))
        return self.described

    def welcome(
        self, replies: Mapping[str, Message | SiteFailure], refuse: Callable[[str, str], None]
    ) -> dict[str, DescribeReply]:
        """Those of the sites that come back which still fit; `refuse` hears of the others, and nobody is stopped."""
        self._refuse_with = refuse
        self.described = admit(replies, self._read, refuse)
        if self.described and self.server:
            self._compare(self.server.task)
        return self.described

    def notes(self) -> list[str]:
        """What a user should hear of the sites' data: images that are not as they were."""
        lines = [f"warning: {site}: left out of the study ({reason})" for site, reason in self.dropped.items()]
        lines += [f"warning: {site}: is away ({reason}); the study goes on, and takes it in when it is back"
                  for site, reason in self.absent.items()]
        total = sum(told.samples["train"] for told in self.described.values())
        for site, told in self.described.items():
            changes = ", ".join(f"{count} {kind}" for kind, count in told.changes.items() if count)
            if changes:
                lines.append(f"{site}: images since the split was frozen: {changes}; the site's log names them")
            before = self._before(site).get("data")
            if before is not None and before != told.data:
                lines.append(f"warning: {site}: its images or labels are not those with which this run began; "
                             "the rounds so far were trained on others")
            if len(self.described) > 2 and told.samples["train"] > 0.9 * total:
                lines.append(f"warning: {site}: says it holds {told.samples['train']} of {total} training samples; "
                             "the average will be its model")
        return lines

    def _read(self, site: str, message: Message) -> DescribeReply:
        if message.models:
            raise FedSuperError("its answer carries weights, which nobody asked for")
        told = opened(site, message, DescribeReply)
        Task.from_json(told.task, f"{site}'s dataset.json")
        unlike = differences(told.software, self.software)
        if unlike:
            raise FedSuperError(f"runs {unlike[0]}; install the same version everywhere")
        if not self.pooled and set(told.splits) != {site}:
            raise FedSuperError(f"describes the split of {', '.join(told.splits)}, expected its own")
        before = self._before(site).get("splits")
        if before is not None and told.splits != before:
            raise FedSuperError(
                f"its images are not split as when this run began (its {FROZEN_FILE} is gone, and labels or "
                "images changed since); restore the site's state folder, or start a new run"
            )
        return told

    def _compare(self, task: Task) -> None:
        """Each site with the task of most, and with the study as the server reads it."""
        digest = study_digest(self.study, task)
        for site, told in list(self.described.items()):
            if Task.from_json(told.task) != task:
                self._refuse(site, f"its dataset.json describes {told.task}, the study's is {task.to_json()}; all "
                                   "sites need the same channels and regions")
            elif told.study != digest:
                self._refuse(site, "reads another study or builds another net than the server; install the same "
                                   "FedSuper and plug-ins everywhere")
        prints = {site: told.fingerprint.model_dump() for site, told in self.described.items()}
        problems = compare_fingerprints(prints, task)
        for line in problems:
            site, _, what = line.partition(": ")
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            self._refuse(site, f"{what}{more}; nobody has trained yet")

    @staticmethod
    def task_of(described: Mapping[str, DescribeReply]) -> Task:
        """That of most sites, of equals the first."""
        counts = Counter(json.dumps(told.task, sort_keys=True) for told in described.values())
        most = counts.most_common(1)[0][0]
        return Task.from_json(next(t.task for t in described.values() if json.dumps(t.task, sort_keys=True) == most))

    def _before(self, site: str) -> Mapping[str, object]:
        found: Mapping[str, object] = self.server.values["described"].get(site, {}) if self.server else {}
        return found

    def _refuse(self, site: str, reason: str) -> None:
        if self._refuse_with is not None:
            self._refuse_with(site, reason)
            self.described.pop(site, None)
            return
        if self.study.federation.on_mismatch == "stop":
            raise FedSuperError(f"{site}: cannot take part ({reason}); {REMEDY}")
        self.dropped[site] = reason
        self.described.pop(site, None)


def _absent(reply: Message | SiteFailure) -> bool:
    return isinstance(reply, SiteFailure) and reply.absent
