"""Splits by patient: reproducible, complete, stratified."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from data_roots import retina_root
from hypothesis import given
from hypothesis import strategies as st

from fedsuper.data.layout import Item, list_items
from fedsuper.data.splits import PARTS, RATIOS, part_sizes, split_items
from fedsuper.data.survey import Survey
from fedsuper.data.task import read_task
from fedsuper.errors import FedSuperError


def items_of(cases: list[str]) -> list[Item]:
    return [Item(f"i{n:03d}", Path(f"i{n}.png"), None, case) for n, case in enumerate(cases)]


def names(split: dict[str, list[Item]]) -> dict[str, list[str]]:
    return {part: [item.name for item in split[part]] for part in split}


CASES = st.lists(st.integers(0, 12), min_size=3, max_size=40).filter(lambda cases: len(set(cases)) >= 3)


@given(cases=CASES, seed=st.integers(0, 5), ratios=st.sampled_from(sorted(RATIOS.values())), order=st.randoms())
def test_every_item_once_every_case_in_one_part_whatever_the_order(cases, seed, ratios, order) -> None:
    items = items_of([f"p{case}" for case in cases])
    split = split_items(Path("nowhere"), items, ratios, seed)
    assert sorted(name for part in PARTS for name in names(split)[part]) == [item.name for item in items]
    homes = {item.case: {part for part in PARTS if item.case in {i.case for i in split[part]}} for item in items}
    assert all(len(home) == 1 for home in homes.values())
    assert all(split[part] for part in PARTS)
    shuffled = list(items)
    order.shuffle(shuffled)
    assert names(split_items(Path("nowhere"), shuffled, ratios, seed)) == names(split)


def test_the_split_is_fixed_for_all_time() -> None:
    """Golden values: a change here would silently move patients between training and test."""
    split = split_items(Path("nowhere"), items_of([f"p{n}" for n in range(8)]), RATIOS["fedsm"], seed=0)
    again = split_items(Path("nowhere"), items_of([f"p{n}" for n in range(8)]), RATIOS["fedsm"], seed=1)
    assert names(split) == GOLDEN
    assert names(again) != GOLDEN


GOLDEN = {"train": ["i000", "i001", "i002", "i005"], "val": ["i003", "i007"], "test": ["i004", "i006"]}


@pytest.mark.parametrize(
    ("count", "ratios", "sizes"),
    [
        (3, RATIOS["fedsm"], (1, 1, 1)),
        (4, RATIOS["fedsm"], (2, 1, 1)),
        (100, RATIOS["fedsm"], (50, 25, 25)),
        (100, RATIOS["iop-fl"], (64, 16, 20)),
        (5, RATIOS["iop-fl"], (3, 1, 1)),
        (3, (0.98, 0.01, 0.01), (1, 1, 1)),
    ],
)
def test_part_sizes(count: int, ratios: tuple[float, float, float], sizes: tuple[int, ...]) -> None:
    assert part_sizes(count, ratios) == sizes


@given(st.integers(3, 500), st.tuples(*[st.floats(0.01, 1)] * 3))
def test_part_sizes_sum_and_are_positive(count: int, ratios: tuple[float, float, float]) -> None:
    sizes = part_sizes(count, ratios)
    assert sum(sizes) == count and min(sizes) >= 1


@given(rare=st.integers(4, 12), common=st.integers(12, 60), seed=st.integers(0, 20))
def test_a_rare_region_reaches_every_part_in_proportion(rare: int, common: int, seed: int) -> None:
    items = items_of([f"p{n}" for n in range(rare + common)])
    shows = {item.name: (n < rare,) for n, item in enumerate(items)}
    split = split_items(Path("nowhere"), items, RATIOS["fedsm"], seed, lambda item: shows[item.name])
    for part, ratio in zip(PARTS, RATIOS["fedsm"], strict=True):
        found = sum(shows[item.name][0] for item in split[part])
        assert abs(found - ratio * rare) <= 1.5


def test_region_presence_reads_the_labels(tmp_path: Path) -> None:
    root = retina_root(tmp_path, sites=("a",))
    items = list_items(root / "a", True)
    presence = Survey(read_task(root)).presence
    assert {presence(item) for item in items} == {(True, True)}
    assert presence(Item("x", Path("x.png"), None, "x")) == (False, False)
    split = split_items(root / "a", items, RATIOS["fedsm"], 0, presence)
    assert [len(split[part]) for part in PARTS] == [2, 1, 1]


def test_splits_json_wins(tmp_path: Path) -> None:
    folder = retina_root(tmp_path, sites=("a",)) / "a"
    items = list_items(folder, True)
    fixed = {"train": ["eye3", "eye1"], "val": ["eye0"], "test": []}
    (folder / "splits.json").write_text(json.dumps(fixed))
    split = split_items(folder, items, RATIOS["fedsm"], 0)
    assert names(split) == {"train": ["eye1", "eye3"], "val": ["eye0"], "test": []}


@pytest.mark.parametrize("ratios", [(1, 0, 0), (0.5, 0.5, float("nan")), (-1, 1, 1), (0.5, 0.5)])
def test_faulty_ratios_are_named(ratios) -> None:
    with pytest.raises(FedSuperError, match="split ratios"):
        split_items(Path("nowhere"), items_of(["a", "b", "c"]), ratios, 0)
