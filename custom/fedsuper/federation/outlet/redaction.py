"""Error lines without names: what goes wrong at a site is told, which file or patient it is about stays there.

The whole line is in the site's own log. Names are taken out in three ways, because each alone misses some: the names
that this site's folder really holds (they may have spaces in them), everything that looks like a path, and everything
that ends like an image file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from fedsuper.data.layout import CASES_FILE
from fedsuper.data.problems import DataProblem

NAME, PATH = "[a name]", "[a file]"
_PATHS = re.compile(r"""(?:[A-Za-z]:)?[^\s'"(),;]*[/\\][^\s'"(),;]*""")
_ENDINGS = "png|jpe?g|tiff?|bmp|nii|gz|dcm|nrrd|mh[ad]|raw|csv|json|ya?ml|safetensors"
_FILES = re.compile(rf"""(?<![/\w.-])[^\s'"(),;/]+\.(?:{_ENDINGS})\b""", re.IGNORECASE)


def redacted(problem: Exception, folders: Iterable[Path]) -> str:
    """The line of `problem` without a name; `folders` are the site's own."""
    text = f"{PATH}: {problem.what}; {problem.fix}" if isinstance(problem, DataProblem) else str(problem)
    known = {name for folder in folders for name in _names(Path(folder))}
    for name in sorted((name for name in known if name and name in text), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", lambda _: NAME, text)
    return _FILES.sub(PATH, _PATHS.sub(_unless_help, text))


def _unless_help(found: re.Match[str]) -> str:
    """Our own documents, and fractions and words like and/or, are no names."""
    text = found[0]
    ours = text.startswith(("docs/", "local/")) or re.fullmatch(r"\w{1,8}/\w{1,8}", text)
    return text if ours and text.split("/")[0] != "" else PATH


def _names(folder: Path) -> set[str]:
    """The site's folder itself, the names in it with and without their endings, and its patients."""
    found = {str(folder), str(folder.absolute()), str(folder.parent.absolute())}
    try:
        for part in ("images", "labels"):
            for path in (folder / part).glob("*"):
                found |= {path.name, path.stem, path.name.partition(".")[0]}
        table = folder / CASES_FILE
        if table.is_file():
            for line in table.read_text(encoding="utf-8", errors="replace").splitlines()[1:]:
                found |= {cell.strip().strip('"') for cell in line.split(",")}
    except OSError:
        pass
    return found - {"", "images", "labels"}
