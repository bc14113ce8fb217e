"""A report as a reader's browser meets it."""

from html.parser import HTMLParser
from pathlib import Path

from fedsuper.report.page import write_report

VOID = {"meta", "link", "input", "br", "img", "hr", "image", "use", "path", "rect", "circle", "line"}


class Page(HTMLParser):
    """Collects what tests ask of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.unnamed: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        self.targets += [str(value) for name, value in attrs if name in ("href", "src", "xlink:href", "action", "data")]
        self.ids += [str(found["id"])] if "id" in found else []
        if found.get("role") == "img" and not found.get("aria-label"):
            self.unnamed.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def page_of(runs: list[Path], out: Path) -> str:
    write_report(runs, out)
    return out.read_text(encoding="utf-8")
