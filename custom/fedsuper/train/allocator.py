"""The C library's memory, kept for the next image or step instead of given back to the system after each.

A net on a CPU takes and frees some tens of megabytes an image. glibc hands large blocks back at once, and the system
clears every page anew when the next image takes them: a sixth of the time of predicting a 256 px slice, a tenth of
that of training on it.
"""

from __future__ import annotations

import ctypes

# <malloc.h>
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 256 * 2**20
LARGEST_BYTES = 32 * 2**20  # glibc's own bound; larger blocks go back when they are freed


def keep_freed_memory() -> bool:
    """For the whole process. False where the C library is another one, which then does as it likes."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # macOS, musl, Windows
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)) and bool(mallopt(M_MMAP_THRESHOLD, LARGEST_BYTES))
