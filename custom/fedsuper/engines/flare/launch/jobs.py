"""What is at work on a provisioned server, as an admin may see it: its sites, and FedSuper's running jobs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from fedsuper.engines.flare.launch.events import ROUND, SITES
from fedsuper.engines.flare.launch.link import Link
from fedsuper.engines.flare.launch.session import Following


def jobs_at(kit: Path) -> dict[str, Any]:
    """Connected sites with the seconds since they were last heard of, and every running job with its last round."""
    link = Link(kit, lambda text: None)
    try:
        info = link.ask(lambda session: session.get_system_info())
        now = time.time()
        seen = {str(client.name): max(0.0, now - float(client.last_connect_time)) for client in info.client_info}
        listed = link.ask(lambda session: session.list_jobs()) or []
        running = [meta for meta in listed if meta.get("status") == "RUNNING"]
        return {"sites": dict(sorted(seen.items())), "jobs": [_job(link, meta) for meta in running]}
    finally:
        link.close()


def _job(link: Link, meta: dict[str, Any]) -> dict[str, Any]:
    job_id = str(meta.get("job_id"))
    told: dict[str, Any] = {"job": job_id, "name": meta.get("job_name"), "round": 0, "summary": "", "absent": {},
                            "bytes": {}}
    heard = Following(link, job_id).told()
    for event in map(json.loads, heard["lines"] if heard else []):
        if event["kind"] == ROUND:
            told |= {"round": event["number"], "summary": event["summary"]}
            for site, both in (event.get("cost") or {}).get("traffic", {}).items():
                sums = told["bytes"].setdefault(site, {"down": 0, "up": 0})
                told["bytes"][site] = {way: sums[way] + both[way] for way in sums}
        elif event["kind"] == SITES:
            told["absent"] = event["absent"]
    return told


def text_of(told: dict[str, Any]) -> str:
    """For a reader."""
    lines = [f"site {site}: last heard of {seconds:.0f} s ago" for site, seconds in told["sites"].items()]
    for job in told["jobs"]:
        lines.append(f"job {job['job']} ({job['name']}): round {job['round']}  {job['summary']}")
        lines += [f"  {site}: {both['down'] / 1e6:.1f} MB down, {both['up'] / 1e6:.1f} MB up"
                  for site, both in sorted(job["bytes"].items())]
        lines += [f"  {site}: away ({reason})" for site, reason in job["absent"].items()]
    return "\n".join(lines or ["no site is connected and no job runs"])
