"""The house stays tidy: small files, rooms one can take in at a glance, names that mean one thing."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from walls import MODULES, PACKAGE

TESTS = PACKAGE.parents[1] / "tests"
LONGEST = 250
MOST_FILES = 14
# A catalog grows with what it lists: one file per method.
CATALOGS = {"methods"}
# The same word for the same thing in two rooms: a method and its mode, a measure and its section of the report, what a
# room's entries have in common, what a room's settings are.
SHARED_STEMS = set(
    "__init__ base boundaries calibration examples measurements outside results routing selector settings training ttt"
    .split()
)
# American spelling; study keys from before are still read under their old names.
BRITISH = re.compile(
    r"colour|artefact|neighbour|labelled(?!by)|labelling|tumour|behaviour|favour|grey|metres?\b|licence|centre|spelt|learnt|catalogue"
    r"|(normal|central|minim|maxim|recogn|personal|general|summar|initial|serial|optim|organ|regular|standard|visual"
    r"|special|quant|random|synthes)is(e|ed|es|ing|ation)\b|\bmend(ed|s)?\b",
    re.IGNORECASE,
)
OLD_KEYS = re.compile(r'"normalise"|`normalise`')
TEXTS = ("*.py", "*.md", "*.j2", "*.yaml", "*.html", "*.js", "*.css")


def place(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def too_long(paths: Iterable[Path]) -> list[str]:
    return [str(path) for path in paths if len(path.read_text(encoding="utf-8").splitlines()) > LONGEST]


def test_no_file_is_too_long() -> None:
    assert not too_long(MODULES)


def test_no_test_file_is_too_long_or_named_like_another() -> None:
    files = sorted(TESTS.rglob("*.py"))
    assert not too_long(files)
    stems = Counter(path.stem for path in files if path.stem != "conftest")
    assert not {stem: count for stem, count in stems.items() if count > 1}


def test_a_long_file_and_a_full_room_would_be_found(tmp_path: Path) -> None:
    for name, lines in (("long.py", LONGEST + 1), ("short.py", LONGEST)):
        (tmp_path / name).write_text("x = 1\n" * lines, encoding="utf-8")
    assert too_long(tmp_path.iterdir()) == [str(tmp_path / "long.py")]
    files = [tmp_path / f"{number}.py" for number in range(MOST_FILES)]
    assert not too_full([*files, tmp_path / "__init__.py"]) and too_full([*files, tmp_path / "one_more.py"])


def too_full(paths: Iterable[Path]) -> dict[Path, int]:
    counts = Counter(path.parent for path in paths if path.stem not in ("__init__", "conftest"))
    return {room: count for room, count in counts.items() if count > MOST_FILES}


def test_no_room_is_too_full() -> None:
    assert {place(room) for room in too_full(MODULES)} <= CATALOGS
    assert not too_full(TESTS.rglob("*.py"))


def test_no_name_means_two_things() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        places[path.stem].append(place(path))
    twice = {stem: where for stem, where in places.items() if len(where) > 1 and stem not in SHARED_STEMS}
    assert not twice


def test_spelling_is_american() -> None:
    root = PACKAGE.parents[1]
    texts = [path for folder in ("custom", "docs") for ending in TEXTS for path in (root / folder).rglob(ending)]
    found = [
        f"{path.relative_to(root)}:{number}: {word[0]}"
        for path in [*texts, root / "README.md", root / "CHANGELOG.md"]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if (word := BRITISH.search(OLD_KEYS.sub("", line)))
    ]
    assert not found


def test_british_spelling_would_be_found() -> None:
    assert BRITISH.search("a Grey image") and BRITISH.search("normalised") and BRITISH.search("to be mended")
    assert not BRITISH.search("recommended, amended, aria-labelledby, promise, otherwise")


def test_documents_point_to_what_exists() -> None:
    root = PACKAGE.parents[1]
    documents = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "jobs").rglob("*.md")]
    broken = []
    for document in documents:
        text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.S)
        for target in re.findall(r"\]\(\s*([^)\s#]+)", text):
            if "://" not in target and not (document.parent / target).exists():
                broken.append(f"{document.relative_to(root)}: {target}")
    assert not broken


def test_the_readme_names_targets_that_exist() -> None:
    root = PACKAGE.parents[1]
    targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(encoding="utf-8"), re.M))
    documents = [root / "README.md", *(root / "docs").rglob("*.md")]
    named = {word for path in documents for word in re.findall(r"(?:^|`)make ([a-z-]+)", path.read_text(), re.M)}
    assert named <= targets and {"demo", "test", "quick"} <= named
