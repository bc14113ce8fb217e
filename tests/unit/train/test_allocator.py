"""Memory that a process frees is kept for its next step."""

from __future__ import annotations

import pytest

from fedsuper.train import allocator


def test_freed_memory_is_kept_where_the_c_library_can(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    class Library:
        def mallopt(self, what: int, value: int) -> int:
            asked.append((what, value))
            return 1

    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda _: Library())
    assert allocator.keep_freed_memory() and dict(asked) == {-1: 256 * 2**20, -3: 32 * 2**20}
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda _: object())
    assert not allocator.keep_freed_memory()
