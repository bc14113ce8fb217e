"""What the doctor says: findings, and their two renderings, a table for people and JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["error", "warning"]
FILES_SHOWN = 8


@dataclass(frozen=True)
class Finding:
    """One problem: how bad, at which site (empty for the root), in which file (relative to the root), and its cure."""

    level: Level
    site: str
    file: str
    what: str
    fix: str


@dataclass(frozen=True)
class SiteCount:
    """How much a site holds."""

    images: int
    cases: int


@dataclass(frozen=True)
class Diagnosis:
    """All findings of a data root and the size of its sites."""

    root: str
    sites: dict[str, SiteCount]
    findings: list[Finding]

    def count(self, level: Level, site: str | None = None) -> int:
        """How many findings of a level there are, at one site or in all."""
        return sum(f.level == level and (site is None or f.site == site) for f in self.findings)


def to_json_text(diagnosis: Diagnosis) -> str:
    """The diagnosis for machines."""
    return json.dumps(
        {
            "root": diagnosis.root,
            "errors": diagnosis.count("error"),
            "warnings": diagnosis.count("warning"),
            "sites": {
                site: {
                    **asdict(count),
                    "errors": diagnosis.count("error", site),
                    "warnings": diagnosis.count("warning", site),
                }
                for site, count in diagnosis.sites.items()
            },
            "findings": [asdict(finding) for finding in diagnosis.findings],
        },
        indent=2,
    )


def to_text(diagnosis: Diagnosis) -> str:
    """The diagnosis for people: a table of sites, then every finding with its files and its cure."""
    rows: list[tuple[str, ...]] = [("site", "images", "cases", "errors", "warnings")]
    for site, count in diagnosis.sites.items():
        found = (diagnosis.count("error", site), diagnosis.count("warning", site))
        rows.append((site, str(count.images), str(count.cases), *map(str, found)))
    totals = [sum(count.images for count in diagnosis.sites.values()), sum(c.cases for c in diagnosis.sites.values())]
    totals += [diagnosis.count("error"), diagnosis.count("warning")]
    rows.append(("total", *map(str, totals)))
    width = max(len(row[0]) for row in rows)
    lines = [f"{row[0]:<{width}}" + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows]
    for level in ("error", "warning"):
        lines += _grouped(f for f in diagnosis.findings if f.level == level)
    if not diagnosis.findings:
        lines += ["", "nothing to fix"]
    return "\n".join(lines)


def _grouped(findings: Iterable[Finding]) -> list[str]:
    """Findings that say the same of several files are said once."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for finding in findings:
        groups.setdefault((finding.level, finding.what, finding.fix), []).append(finding.file)
    lines: list[str] = []
    for (level, what, fix), files in groups.items():
        lines += ["", f"{level}: {what}"]
        lines += [f"    {file}" for file in files[:FILES_SHOWN]]
        if len(files) > FILES_SHOWN:
            lines.append(f"    and {len(files) - FILES_SHOWN} more (all of them with --json)")
        lines.append(f"  to fix: {fix}")
    return lines
