"""`fedsuper.load(folder)`: a super model for Python, one image in, one result out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedsuper.data.images.geometry import SliceFrame
from fedsuper.data.images.io import Image, read_image
from fedsuper.data.images.masks import write_mask
from fedsuper.errors import FedSuperError
from fedsuper.inference.opening import open_predictor
from fedsuper.inference.segment import Quality, segment

Number = TypeVar("Number", bound=np.generic)
ARRAY = Path("array")  # what messages call an image that came from no file


@dataclass(frozen=True, repr=False)
class Result:
    """One segmented image.

    `mask` holds the task's label values and `probabilities` `[R, ...]` one map per region of `regions`, both in the
    image's own shape. `model` answered; `sites` are the selector's probabilities and `confidence` is the largest of
    them, `{}` and None without a selector. `familiarity` says how usual the image is, from 0 (unlike every image the
    sites hold) to 1, None where the super model cannot tell; `quality` the mask's estimated Dice with the interval that
    nine in ten lie in (value, low, high), None likewise; `review` why a person should look, empty where nothing speaks
    for that.
    """

    mask: NDArray[np.uint8]
    probabilities: NDArray[np.float32]
    regions: tuple[str, ...]
    model: str
    sites: dict[str, float]
    confidence: float | None
    familiarity: float | None
    review: str
    image: Image
    quality: Quality | None = None

    def save(self, path: str | Path) -> None:
        """Write the mask in the grid of the file the image came from; the ending chooses the format."""
        if self.image.path == ARRAY:
            raise FedSuperError(f"{path}: this image came as an array and has no file to take its geometry from; "
                                "save result.mask yourself, or predict the file")
        stack = self.mask.reshape(self.image.native_shape)
        if self.image.affine is not None:
            stack = self.image.frame.to_slices(stack.reshape(stack.shape[:3]))
        write_mask(Path(path), stack.reshape(self.image.stack_shape), self.image)

    def __repr__(self) -> str:
        parts = [f"mask {'x'.join(map(str, self.mask.shape))}", f"model {self.model!r}"]
        parts += [] if self.confidence is None else [f"confidence {self.confidence:.3f}"]
        parts += [] if self.familiarity is None else [f"familiarity {self.familiarity:.3f}"]
        parts += [] if self.quality is None else [f"estimated Dice {self.quality[0]:.2f}"]
        parts += [f"a person should look: {self.review}"] if self.review else []
        return f"Result({', '.join(parts)})"


class LoadedSuperModel:
    """A super model at the desk: `predict` segments one file or array."""

    def __init__(self, folder: str | Path, settings: Sequence[str] = ()) -> None:
        self.folder = Path(folder)
        self._predictor = open_predictor(self.folder, settings)

    @property
    def sites(self) -> list[str]:
        """The sites that trained, in the selector's order."""
        return list(self._predictor.super_model.sites)

    @property
    def regions(self) -> list[str]:
        """What is segmented."""
        return list(self._predictor.task.regions)

    @property
    def mode(self) -> str:
        """How it predicts when nothing else is asked for."""
        return self._predictor.super_model.mode

    def predict(
        self,
        image: str | Path | NDArray[np.generic],
        mode: str | None = None,
        gamma: float | None = None,
        vote: str = "case",
    ) -> Result:
        """Segment one image: a file, a DICOM folder, or an array `[H, W]`, `[H, W, 3]`, `[Z, H, W]` or `[Z, C, H, W]`.

        Whatever `mode` is, the answer depends on this image alone, not on those before it.
        """
        if isinstance(image, (str, Path)):
            opened = read_image(Path(image))
        else:
            opened = from_array(np.asarray(image), self._predictor.task.channels)
        found = segment(self._predictor, opened, mode, gamma=gamma, vote=vote)
        return Result(
            mask=_own_shape(found.labels, opened),
            probabilities=np.stack([_own_shape(one, opened) for one in found.probabilities.numpy().swapaxes(0, 1)]),
            regions=tuple(self.regions),
            model=found.model,
            sites=found.sites,
            confidence=found.confidence,
            familiarity=found.familiarity,
            review=found.review,
            image=opened,
            quality=found.quality,
        )

    def __repr__(self) -> str:
        return f"LoadedSuperModel({str(self.folder)!r}, {self._predictor.super_model!r})"


def from_array(array: NDArray[np.generic], channels: int) -> Image:
    """An image without a file; a last axis of 3 (of 1) is color of a task in color (gray), a first one slices."""
    if array.dtype.kind not in "uif" or array.ndim not in (2, 3, 4) or 0 in array.shape:
        raise FedSuperError(f"predict: expected numbers [H, W], [H, W, 3], [Z, H, W] or [Z, C, H, W], got "
                            f"{array.dtype} of shape {array.shape}")
    pixels = array.astype(np.float32)
    if not np.isfinite(pixels).all():
        raise FedSuperError("predict: the array holds NaN or infinite values; replace them (often a background of 0)")
    photograph = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in {1, channels} and array.shape[2] < 5)
    if array.ndim == 2:
        pixels = pixels[None, None]
    elif photograph:
        pixels = pixels.transpose(2, 0, 1)[None]
    elif array.ndim == 3:
        pixels = pixels[:, None]
    shape = pixels.shape[2:] if photograph else (pixels.shape[0], *pixels.shape[2:])
    return Image(np.ascontiguousarray(pixels), ARRAY, "raster", shape, SliceFrame())


def _own_shape(stack: NDArray[Number], image: Image) -> NDArray[Number]:
    """`[Z, H, W]` in the axis order and shape of the file or array it came from."""
    if image.affine is None:
        return stack.reshape(image.native_shape)
    return np.ascontiguousarray(image.frame.to_file(stack)).reshape(image.native_shape)
