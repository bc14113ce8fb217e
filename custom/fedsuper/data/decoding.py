"""The border to the image decoders: sizes are checked first, and whatever they throw becomes one line."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fedsuper.data.problems import DataProblem
from fedsuper.errors import FedSuperError

# Values (pixels times channels) one file may claim; a header can promise terabytes in a few bytes.
MAX_VALUES = 2**28


@contextmanager
def decoding(path: Path) -> Iterator[None]:
    """Run a decoder on `path`; its exceptions leave as one DataProblem."""
    try:
        if path.is_file() and path.stat().st_size == 0:
            raise DataProblem(path, "is empty (0 bytes)", "restore it from its source")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except FedSuperError:
        raise
    except FileNotFoundError:
        raise DataProblem(path, "does not exist", "check the name, or the link if it is one") from None
    except PermissionError:
        raise DataProblem(path, "may not be read", "give read permission to the user who runs this") from None
    except Exception as error:  # decoders raise nearly anything on a damaged file
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise DataProblem(
            path, f"cannot be read ({reason})", "it is torn or of another format: restore or export it again"
        ) from error


def check_size(path: Path, shape: Sequence[int]) -> None:
    """Refuse arrays without content and arrays too large to decode safely, before they are decoded."""
    if any(length <= 0 for length in shape):
        raise DataProblem(path, f"holds no pixels (shape {tuple(shape)})", "export it again")
    if math.prod(shape) > MAX_VALUES:
        what = f"claims {math.prod(shape):,} values (shape {tuple(shape)}), the limit is {MAX_VALUES:,}"
        raise DataProblem(path, what, "crop or downsample it, or remove it if it was not meant to be that large")
