"""The pieces of HTML that sections are written in; every text that goes in is escaped."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from fedsuper.report.figures.picture import Picture


@dataclass(frozen=True)
class Cell:
    """A table's cell: its text, a smaller line below it, a tooltip, CSS classes."""

    text: str
    small: str = ""
    tip: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Row:
    """A table's row: its name (with a dot in `color`), its cells, CSS classes."""

    name: str
    cells: Sequence[Cell | str] = field(default_factory=list)
    color: str = ""
    kind: str = ""


def join(parts: Iterable[Markup]) -> Markup:
    """One piece after the other."""
    return Markup("\n").join(parts)


def note(text: str) -> Markup:
    """A quiet line of explanation."""
    return Markup('<p class="note">{}</p>').format(text)


def warning(text: str) -> Markup:
    """A sentence that must not be overlooked."""
    return Markup('<p class="caveat">{}</p>').format(text)


def chart(picture: Picture, narrow: bool = False) -> Markup:
    """A figure with its title and caption; `narrow` ones shrink with the page instead of scrolling."""
    kinds = " ".join(name for name, wanted in (("narrow", narrow), ("wide", picture.wide)) if wanted)
    title = Markup("<h3>{}</h3>").format(picture.title) if picture.title else ""
    caption = Markup("<figcaption>{}</figcaption>").format(picture.caption) if picture.caption else ""
    inside = Markup('{}<div class="chart" role="img" aria-label="{}">{}</div>{}')
    return Markup('<figure class="{}">{}</figure>').format(
        kinds, inside.format(title, picture.alt, picture.svg, caption)
    )


def beside(picture: Picture) -> Markup:
    """A figure with its caption at its side where there is room."""
    return Markup('<div class="beside">{}</div>').format(chart(picture, narrow=True))


def pair(pictures: Iterable[Picture]) -> Markup:
    """Figures side by side where there is room."""
    return Markup('<div class="pair">{}</div>').format(join(chart(picture, narrow=True) for picture in pictures))


def table(columns: Sequence[Cell | str], groups: Sequence[Sequence[Row]], name: str) -> Markup:
    """A table that sorts by a click on a column, with a link to itself as `name`.csv.

    Each group of rows is a body of its own, a row's name its header.
    """
    head = join(_cell("th", column, Markup(' scope="col"')) for column in columns)
    bodies = join(Markup("<tbody>{}</tbody>").format(join(map(_row, group))) for group in groups)
    scroll = '<div class="scroll" role="region" aria-label="{}" tabindex="0">{}</div>{}'
    whole = Markup('<table class="sortable"><thead><tr>{}</tr></thead>{}</table>').format(head, bodies)
    return Markup(scroll).format(f"Table {name}", whole, _csv_link(columns, groups, name))


def details(summary: str, body: Markup, open_: bool = False) -> Markup:
    """Something to unfold."""
    text = Markup("<details{}><summary>{}</summary><div>{}</div></details>")
    return text.format(Markup(" open") if open_ else "", summary, body)


def _csv_link(columns: Sequence[Cell | str], groups: Sequence[Sequence[Row]], name: str) -> Markup:
    """The table as a spreadsheet reads it, inside the page; a region's row says which method's it is."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_text(column) for column in columns])
    above = ""
    for row in (row for group in groups for row in group):
        above = above if row.kind == "region" else row.name
        name_of_row = f"{above}: {row.name}" if row.kind == "region" else row.name
        writer.writerow([_inert(name_of_row), *(_inert(_text(cell).replace("−", "-")) for cell in row.cells)])
    data = base64.b64encode(text.getvalue().encode("utf-8")).decode("ascii")
    file = re.sub(r"[^\w.-]+", "-", name)
    words = Markup('CSV<span class="hidden"> of table {}</span>').format(name)
    link = Markup('<p class="csv"><a download="{}.csv" href="data:text/csv;base64,{}">{}</a></p>')
    return link.format(file, data, words)


def _text(cell: Cell | str) -> str:
    return cell if isinstance(cell, str) else " ".join(filter(None, [cell.text, cell.small]))


def _inert(text: str) -> str:
    """A site may call itself `=HYPERLINK(...)`: a spreadsheet must show that, not run it."""
    plain = re.fullmatch(r"[+-][\d.]+( to [+-]?[\d.]+)?", text)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") and not plain else text


def _row(row: Row) -> Markup:
    dot = Markup('<i class="swatch" style="background:{}"></i>').format(row.color) if row.color else ""
    name = Markup('<th scope="row">{}{}</th>').format(dot, row.name)
    cells = Markup("").join(_cell("td", cell) for cell in row.cells)
    return Markup("<tr{}>{}{}</tr>").format(_attribute("class", row.kind), name, cells)


def _cell(tag: str, cell: Cell | str, attributes: Markup | str = "") -> Markup:
    cell = Cell(cell) if isinstance(cell, str) else cell
    small = Markup("<small>{}</small>").format(cell.small) if cell.small else ""
    every = Markup("").join([escape(attributes), _attribute("class", cell.kind), _attribute("title", cell.tip)])
    return Markup("<{0}{1}>{2}{3}</{0}>").format(Markup(tag), every, cell.text, small)


def _attribute(name: str, value: str) -> Markup:
    return Markup(' {}="{}"').format(Markup(name), value) if value else Markup("")
