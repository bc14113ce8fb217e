"""What a site imports for its tasks, imported once before the first is born.

Modules that many commands never need are imported where they are used: the pieces of a mask, formats of images. A site
needs them all, and each of six sites would spend a quarter of a second on them. Its nets cost it next to nothing.
"""

from __future__ import annotations

import contextlib
import gc
import importlib

from fedsuper.federation.software import software

NEEDED = (
    "PIL.Image", "PIL.PngImagePlugin", "PIL.JpegImagePlugin", "PIL.BmpImagePlugin", "PIL.GifImagePlugin",
    "PIL.PpmImagePlugin", "encodings.utf_8_sig", "imagecodecs._png", "numpy.ctypeslib", "numpy.ma", "scipy.ndimage",
    "torch.utils._device", "fedsuper.evaluation.evaluate", "fedsuper.federation.completion.site_calibration",
)


def warm() -> None:
    """Import it all, and let the collector of garbage pass over it: looking at it, every fork would copy its pages."""
    gc.disable()
    for name in NEEDED:
        with contextlib.suppress(ImportError):  # an extra that is not installed here
            importlib.import_module(name)
    software()
    gc.freeze()
    gc.enable()
