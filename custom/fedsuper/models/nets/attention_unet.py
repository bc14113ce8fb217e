"""MONAI's Attention U-Net (Oktay et al. 2018): the skip connections pass through gates that look where it matters."""

from __future__ import annotations

from typing import ClassVar, Literal

from fedsuper.models.net import StridedNet


class AttentionUNetSettings(StridedNet):
    """Two convolutions with BatchNorm a level; MONAI's module knows no other norm."""

    target: ClassVar[str] = "monai.networks.nets.AttentionUnet"

    name: Literal["attention-unet"] = "attention-unet"
    norm: Literal["batch"] = "batch"

    def convolutions(self) -> int:
        return 4
