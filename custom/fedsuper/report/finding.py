"""The first screen: what was found, from the numbers alone, and as plain when it is bad.

The subject is the federated method with the highest client average, baselines apart; it is held against the baselines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedsuper.evaluation.comparisons import BETTER, EQUAL, FEW, FEWEST_CASES, OPEN, WORSE, Comparison, Difference
from fedsuper.report.chapters import Chapter
from fedsuper.report.numbers import dice, mean
from fedsuper.report.runs import ALONE, POOLED, Entry

SPOKEN = {ALONE: "training alone", POOLED: "pooled training"}


@dataclass(frozen=True)
class Part:
    """A piece of the sentence; numbers stand out."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Verdict:
    """One hospital against one baseline."""

    baseline: str
    difference: Difference


@dataclass(frozen=True)
class Hospital:
    """A card of the strip: the subject's score at a site and its differences there."""

    site: str
    dice: float
    verdicts: list[Verdict]


@dataclass(frozen=True)
class Finding:
    """What the first screen says."""

    title: str
    lead: list[Part]
    caveats: list[str]
    hospitals: list[Hospital]


def finding_of(chapter: Chapter) -> Finding:
    """Everything the first screen says of a chapter."""
    subject = subject_of(chapter)
    if subject is None:
        names = ", ".join(entry.label for entry in chapter.entries)
        title = f"{names} trained at {_count(chapter)}"
        return Finding(title, [Part("The super model is not scored yet.")], [], [])
    against = chapter.against(subject)
    return Finding(
        title_of(chapter, subject, against),
        lead_of(chapter, subject, against),
        caveats_of(chapter, subject),
        hospitals_of(chapter, subject, against),
    )


def subject_of(chapter: Chapter) -> Entry | None:
    """The method the report is about."""
    entries = [entry for entry in chapter.comparable if not entry.bound]
    federated = [entry for entry in entries if not entry.reference]
    baselines = {found.b for found in chapter.comparisons}
    new = [entry for entry in federated if entry.label not in baselines]
    return max(new or federated or entries, key=lambda entry: float(entry.scores["client_avg"]), default=None)


def spoken(chapter: Chapter, label: str) -> str:
    """A baseline as a sentence names it."""
    method = next((entry.method for entry in chapter.entries if entry.label == label), label)
    return SPOKEN.get(method, label)


def title_of(chapter: Chapter, subject: Entry, against: Sequence[Comparison]) -> str:
    """The finding as one sentence."""
    if not against:
        return f"{subject.label} reaches a mean Dice of {dice(subject.scores['client_avg'])} at {_count(chapter)}"
    by_verdict: dict[str, list[Comparison]] = {}
    for found in against:
        by_verdict.setdefault(found.verdict, []).append(found)
    clauses: list[str] = []
    for verdict, verb, sign in ((BETTER, "beats", 1), (WORSE, "loses to", -1)):
        clauses += _counted(chapter, verb, by_verdict.get(verdict, []), sign, "" if clauses else " hospitals")
    for verdict, words in (
        (OPEN, "cannot be told apart from"),
        (EQUAL, "gives the same masks as"),
        (FEW, "has too few test patients to be told apart from"),
    ):
        names = [spoken(chapter, found.b) for found in by_verdict.get(verdict, [])]
        clauses += [f"{words} {_listed(names)}"] if names else []
    joint = ", but " if BETTER in by_verdict and len(by_verdict) > 1 else " and "
    return f"{subject.label} {clauses[0]}" + (joint + " and ".join(clauses[1:]) if clauses[1:] else "")


def lead_of(chapter: Chapter, subject: Entry, against: Sequence[Comparison]) -> list[Part]:
    """The averages behind the title, and the row that is higher still."""
    what = _listed(chapter.regions) or "images"
    parts = [
        Part(f"{subject.label} segments {what} with a mean Dice of "),
        Part(dice(subject.scores["client_avg"]), True),
        Part(f" over {_count(chapter)}"),
    ]
    interval = subject.scores.get("ci95", {}).get("client_avg")
    if interval:
        parts.append(Part(f" (95% interval {dice(interval[0])} to {dice(interval[1])})"))
    by_label = {entry.label: entry for entry in chapter.scored}
    for position, found in enumerate(against):
        parts.append(Part(f"{', ' if position else '; '}{spoken(chapter, found.b)} "))
        parts.append(Part(dice(by_label[found.b].scores["client_avg"]), True))
    parts.append(Part("."))
    told = {subject.label, *(found.b for found in against)}
    higher = [e for e in chapter.comparable if e.scores["client_avg"] > subject.scores["client_avg"] and not e.bound]
    top = max(higher, key=lambda entry: float(entry.scores["client_avg"]), default=None)
    if top is not None and top.label not in told:
        parts += [Part(f" Highest of all rows: {top.label}, "), Part(dice(top.scores["client_avg"]), True), Part(".")]
    return parts + _away(chapter, subject)


def caveats_of(chapter: Chapter, subject: Entry) -> list[str]:
    """What keeps the numbers from saying more, each in a sentence."""
    unused = selector_caveat(subject)
    lines = [*([unused] if unused else []), *equal_rows(chapter)]
    places = [place for found in chapter.against(subject)[:1] for place in found.per_site.items()]
    few = [site for site, difference in places if difference.cases < FEWEST_CASES]
    if few:
        have = "has" if len(few) == 1 else "have"
        lines.append(f"{_listed(few)} {have} fewer than {FEWEST_CASES} test patients: too few for a verdict there.")
    seeds = subject.scores.get("per_seed", {})
    if len(seeds) == 1:
        lines.append("One training each: how much another seed would change is not known.")
    return lines


def selector_caveat(entry: Entry) -> str | None:
    """A selector that is never used, in words."""
    closed = [manifest.get("gamma") == 1 for manifest in entry.manifests.values()]
    if any(closed) and entry.scores.get("selector"):
        seeds = "" if all(closed) else f" in {sum(closed)} of {len(closed)} seeds"
        why = f"validation chose γ = 1{seeds}, so every image goes to the global model"
        return f"{entry.label} {'never uses' if all(closed) else 'does not always use'} its selector: {why}."
    shares = entry.scores.get("selected", {}).values()
    if entry.scores.get("selector") and shares and all(set(by_model) == {"global"} for by_model in shares):
        return f"The selector of {entry.label} sent every test image to the global model."
    return None


def equal_rows(chapter: Chapter) -> list[str]:
    """Methods that give the same score as a baseline on every image."""
    return [
        f"{found.a} has the same score as {found.b} on every image."
        for found in chapter.comparisons
        if found.verdict == EQUAL
    ]


def hospitals_of(chapter: Chapter, subject: Entry, against: Sequence[Comparison]) -> list[Hospital]:
    """The strip; none where there is nothing to compare with."""
    hospitals = []
    for site in chapter.sites if against else []:
        verdicts = [
            Verdict(spoken(chapter, found.b), found.per_site[site]) for found in against if site in found.per_site
        ]
        hospitals.append(Hospital(site, float(subject.scores["per_site"][site]["mean"]), verdicts))
    return hospitals


def _away(chapter: Chapter, subject: Entry) -> list[Part]:
    """A model trained alone on the other hospitals' images, where that was scored."""
    alone = next((entry for entry in chapter.scored if entry.method == ALONE and "site_by_model" in entry.scores), None)
    if alone is None or subject is alone:
        return []
    matrix = alone.scores["site_by_model"]
    away = [value for model, by_site in matrix.items() for site, value in by_site.items() if site != model]
    if not away:
        return []
    own = dice(subject.scores["client_avg"])
    return [
        Part(" On other hospitals' images a model trained alone reaches "),
        Part(dice(mean(away)), True),
        Part(f", {subject.label} "),
        Part(own, True),
        Part("."),
    ]


def _counted(chapter: Chapter, verb: str, found: Sequence[Comparison], sign: int, unit: str) -> list[str]:
    names = [
        f"{spoken(chapter, one.b)} at {one.sites(sign)} of {len(one.per_site)}{'' if place else unit}"
        f"{_clearly(one, sign)}"
        for place, one in enumerate(found)
    ]
    return [f"{verb} {_listed(names)}"] if names else []


def _clearly(found: Comparison, sign: int) -> str:
    """How many of the counted hospitals have a clear difference on their card; nothing where all have."""
    clear = found.clear_sites(sign)
    return "" if clear == found.sites(sign) else f" ({clear or 'none'} clearly)"


def _count(chapter: Chapter) -> str:
    count = len(chapter.sites)
    return f"{count} {'unseen ' if chapter.unseen else ''}hospital{'s' if count != 1 else ''}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
