"""Random streams are named by what is done; nothing else enters."""

from __future__ import annotations

import subprocess
import sys

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsuper.train.seeding import generator, seed_of

NAMES = st.lists(st.one_of(st.integers(), st.text(max_size=8)), min_size=1, max_size=4)


@given(names=NAMES)
def test_a_seed_fits_torch_and_depends_on_the_names_alone(names: list[object]) -> None:
    assert 0 <= seed_of(*names) < 2**63 and seed_of(*names) == seed_of(*names)


@given(one=NAMES, other=NAMES)
def test_other_names_other_streams(one: list[object], other: list[object]) -> None:
    if [str(name) for name in one] != [str(name) for name in other] and "\x1f" not in "".join(map(str, one + other)):
        assert seed_of(*one) != seed_of(*other)


def test_where_one_name_ends_and_the_next_begins_counts() -> None:
    assert seed_of("a", "bc") != seed_of("ab", "c")


def test_another_process_draws_the_same_numbers() -> None:
    """Python's own hashes differ from process to process; these must not."""
    code = "from fedsuper.train.seeding import seed_of; print(seed_of(0, 'A', 3, 'train'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == seed_of(0, "A", 3, "train")


def test_the_global_stream_is_not_touched() -> None:
    state = torch.get_rng_state()
    torch.rand(3, generator=generator("x"))
    assert torch.equal(torch.get_rng_state(), state)
