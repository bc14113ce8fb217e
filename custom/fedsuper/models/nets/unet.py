"""MONAI's U-Net, with residual units as in the public FedSM code or without."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from fedsuper.models.net import Norm, StridedNet


class UNetSettings(StridedNet):
    """`residual_units` convolutions a level with a shortcut around them; 0: plain convolutions."""

    target: ClassVar[str] = "monai.networks.nets.UNet"
    built_by: ClassVar[str | None] = "fedsuper.models.nets.monai_unet.MonaiUNet"
    between: ClassVar[int] = 2  # one down and two up; since sum ab <= sum a^2, the squares cover one of the three

    name: Literal["unet"] = "unet"
    norm: Norm = "instance"
    residual_units: int = Field(0, ge=0, le=16)

    def arguments(self, inputs: int, outputs: int) -> dict[str, Any]:
        return super().arguments(inputs, outputs) | {"num_res_units": self.residual_units, "norm": self.norm}

    def convolutions(self) -> int:
        return 1 + self.residual_units
