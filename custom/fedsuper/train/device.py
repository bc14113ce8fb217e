"""Which device computes, and how: chosen from configuration, one place for CPU and CUDA."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from fedsuper.config import ComputeConfig
from fedsuper.errors import FedSuperError

AMP_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def choose_device(config: ComputeConfig) -> torch.device:
    """`auto` is CUDA where there is one. FEDSUPER_DEVICE, set per site, wins over the study.

    A named device that is not there is an error: a hospital that asked for its GPU should not find out days
    later that the CPU did the work.
    """
    wanted = os.environ.get("FEDSUPER_DEVICE") or config.device
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise FedSuperError(f"compute.device: '{wanted}' is no torch device; use auto, cpu, cuda or cuda:1") from None
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            raise FedSuperError(f"compute.device: '{wanted}' was asked for, this machine has {count} CUDA device(s); "
                                "use auto or cpu, or mend the driver")
    return device


@dataclass(frozen=True)
class Compute:
    """Device, precision and memory format of one process."""

    device: torch.device
    amp: str = "off"
    channels_last: bool = False
    eval_batch_size: int = 8

    @classmethod
    def from_config(cls, config: ComputeConfig) -> Compute:
        """Choose the device and fix the thread count (part of the study, because it changes reduction order)."""
        torch.set_num_threads(config.torch_threads)
        return cls(choose_device(config), config.amp, config.channels_last, config.eval_batch_size)

    def place(self, images: torch.Tensor) -> torch.Tensor:
        """A batch on the device, through pinned memory for CUDA so that the copy overlaps with compute."""
        if self.device.type == "cuda" and images.device.type == "cpu":
            images = images.pin_memory()
        images = images.to(self.device, non_blocking=True)
        last = self.channels_last and images.dim() == 4
        return images.contiguous(memory_format=torch.channels_last) if last else images

    def place_net(self, net: torch.nn.Module) -> torch.nn.Module:
        """A net on the device, in the memory format its inputs will have."""
        net = net.to(self.device)
        return net.to(memory_format=torch.channels_last) if self.channels_last else net  # type: ignore[call-overload]

    @contextlib.contextmanager
    def autocast(self) -> Iterator[None]:
        """Mixed precision where the study asks for it."""
        if self.amp == "off":
            yield
            return
        with torch.autocast(self.device.type, dtype=AMP_TYPES[self.amp]):
            yield
