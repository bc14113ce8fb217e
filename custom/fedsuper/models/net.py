"""What a segmentation net is to the rest of the product: settings that name a module and what it is made with.

The settings are what a study says under `model`. Training, prediction and export all build from the same `target`, or
what equals it to the bit, and `arguments`, so an exported net cannot differ from the one that was trained. This file
imports no torch: a study is checked before anything heavy is loaded.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fedsuper.schema import Strict

Width = Annotated[int, Field(ge=1)]
Stride = Annotated[int, Field(ge=1, le=8)]
Norm = Literal["instance", "batch"]
MOST_WEIGHTS = 500_000_000  # 2 GB in float32, for each of a federation's models


class NetSettings(Strict):
    """The base of every net: a file in `models/nets/` derives from it, a line in the registry names it.

    Fields are the net's knobs; a study that sets another one is refused.
    """

    target: ClassVar[str]  # dotted path of the torch module, as an export names it
    built_by: ClassVar[str | None] = None  # our own code of the same module, where importing the target is slow

    name: str
    norm: Norm

    def arguments(self, inputs: int, outputs: int) -> dict[str, Any]:
        """Keyword arguments of the module, as plain JSON, for `inputs` planes and `outputs` logit maps."""
        raise NotImplementedError

    def image_multiple(self) -> int:
        """The image side must be a multiple of this for the ways down and up to meet."""
        raise NotImplementedError

    def most_weights(self) -> int:
        """An upper bound of the number of weights, from the settings alone: what it refuses was never allocated."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _not_absurd(self) -> Self:
        if self.most_weights() > MOST_WEIGHTS:
            raise ValueError(f"this net has up to {self.most_weights():.2g} weights, {MOST_WEIGHTS:.0e} are the limit; "
                             "use narrower or fewer channels")
        return self


class LeveledNet(NetSettings):
    """A net with one width a level and a step down by two between levels."""

    between: ClassVar[int] = 1  # kernels of a x b between levels of widths a and b, beyond what the squares cover

    channels: tuple[Width, ...] = Field((16, 32, 64, 128, 256), min_length=2, max_length=10)

    def steps_down(self) -> tuple[int, ...]:
        """By how much each step from one level to the next shrinks the image."""
        return (2,) * (len(self.channels) - 1)

    def image_multiple(self) -> int:
        return math.prod(self.steps_down())

    def convolutions(self) -> int:
        """How heavy a level may be, in units of a single convolution on the way down and up."""
        return 1

    def most_weights(self) -> int:
        """3x3 kernels within levels and between them; the 4 stands for input planes, regions and biases."""
        widths = [width + 4 for width in self.channels]
        kernels = sum(width * width for width in widths) + self.between * sum(a * b for a, b in pairwise(widths))
        return 9 * kernels * self.convolutions()


class StridedNet(LeveledNet):
    """A net whose steps down a study may choose; `null`: 2 everywhere."""

    strides: tuple[Stride, ...] | None = None

    def steps_down(self) -> tuple[int, ...]:
        return self.strides or super().steps_down()

    def arguments(self, inputs: int, outputs: int) -> dict[str, Any]:
        """What MONAI's nets of this family have in common."""
        return {
            "spatial_dims": 2,
            "in_channels": inputs,
            "out_channels": outputs,
            "channels": list(self.channels),
            "strides": list(self.steps_down()),
        }

    @model_validator(mode="after")
    def _one_stride_a_step(self) -> Self:
        if self.strides is not None and len(self.strides) != len(self.channels) - 1:
            raise ValueError(f"strides needs one entry fewer than channels ({len(self.channels) - 1})")
        return self
