"""Memory that NVFlare's threads let go of, given back to the system.

Some hundred threads carry a round's messages, and each allocates from one of many heaps of its own. What they free
stays with those heaps: a process would grow for fifty rounds before it settles, by what was never in use at once.
"""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Return free memory to the system, where the C library (glibc) can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
