"""A job that dies is submitted again by the command itself, from the last complete round."""

from __future__ import annotations

import time

from play import Play, Score
from provisioned import SERVER, Provisioned, wait


def play(place: Provisioned, score: Score) -> None:
    """One run; the job's processes are killed one after another, then the server."""
    show = Play(place, "jobs", seed=2, rounds=40, restarts=6)
    show.paced(place.sites[0])
    show.start()
    at = show.round(1)
    one, two, _ = place.sites
    with score.fault("a site's job process killed: the site is named, the job submitted again"):
        place.job(two).kill()
        at = show.sees(f"{two}: its job process died, and with it the job; starting again", at)
        at = show.sees("submitted as job", at)
        at = show.sees("3/3 sites", at)
    with score.fault("the server's job process killed: submitted again"):
        place.job(SERVER).kill()
        at = show.sees("starting again from the last complete round", at)
        at = show.sees("3/3 sites", at)
    with score.fault("the server frozen for ten seconds: waited out, the same job goes on"):
        server = place.server()
        server.suspend()
        time.sleep(10)
        server.resume()
        at = show.sees("sites  validation", at)
    with score.fault("the server killed: waited for, and the job submitted again when it is back"):
        place.server().kill()
        at = show.sees("the server cannot be reached", at)
        at = show.sees("starting again from the last complete round", at)
        wait(lambda: {one, two} <= place.connected(), 120, "sites back")
        at = show.sees("3/3 sites", at)
    with score.fault("all sites' job processes killed at once"):
        for site in place.sites:
            place.job(site).kill()
        at = show.sees("its job process died, and with it the job; starting again", at)
    with score.fault("the command returns with the super model"):
        show.ends()
    score.settle(show, show.check_bits)
