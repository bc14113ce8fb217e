"""Who is expected, who is there, and who is not waited for any more.

A site that let two deadlines in a row pass would cost every later task the whole deadline. It is skipped for one task,
then two, four, up to sixteen, and asked again in between; its first answer makes it a site like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from fedsuper.federation.messages import Message, SiteFailure

PATIENCE = 2  # deadlines in a row
LONGEST_SKIP = 16  # tasks


class Attendance:
    """The list of one study; `note` hears of sites that are back."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note
        self.away: dict[str, str] = {}  # why a site is not there
        self._late: dict[str, int] = {}
        self._skips: dict[str, int] = {}

    def asked(self, sites: Iterable[str]) -> list[str]:
        """The sites to ask now; all of them where every single one would be skipped."""
        everyone = list(sites)
        asked = [site for site in everyone if not self._skips.get(site)]
        for site in everyone:
            if self._skips.get(site):
                self._skips[site] -= 1
        return asked or everyone

    def skipped(self, site: str) -> SiteFailure:
        """What stands in place of a skipped site's answer."""
        return SiteFailure(f"silent: {self._late.get(site, 0)} deadlines in a row passed without an answer; "
                           f"asked again after {self._skips.get(site, 0)} more tasks", absent=True)

    def heard(self, replies: Mapping[str, Message | SiteFailure]) -> None:
        """Note who answered."""
        for site, reply in replies.items():
            if isinstance(reply, SiteFailure) and reply.absent:
                self.away[site] = reply.reason
                if reply.late:
                    self._late[site] = self._late.get(site, 0) + 1
                    if self._late[site] >= PATIENCE:
                        self._skips[site] = min(2 ** (self._late[site] - PATIENCE), LONGEST_SKIP)
                continue
            self._late.pop(site, None)
            if self.away.pop(site, None) is not None:
                self.note(f"{site}: is back")
