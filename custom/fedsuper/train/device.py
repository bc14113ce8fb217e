"""Which device computes, and how: chosen from configuration, one place for CPU and CUDA."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch

from fedsuper.config import ComputeConfig
from fedsuper.errors import FedSuperError

Pair = tuple[torch.Tensor, torch.Tensor]
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
                                "use auto or cpu, or fix the driver")
    return device


_side_stream: Callable[[torch.device], torch.cuda.Stream] = torch.cuda.Stream


@dataclass(frozen=True)
class Compute:
    """Device, precision and memory format of one process."""

    device: torch.device
    amp: str = "off"
    channels_last: bool = False
    eval_batch_size: int = 8
    compile: str = "off"

    @classmethod
    def from_config(cls, config: ComputeConfig) -> Compute:
        """Choose the device and fix the thread count (part of the study, because it changes reduction order).

        `deterministic` keeps to algorithms that give the same bits each time on the same kind of GPU; without it CUDA
        tries several for each shape and takes the fastest.
        """
        torch.set_num_threads(config.torch_threads)
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it once, when it starts
        if torch.are_deterministic_algorithms_enabled() != config.deterministic:  # setting it imports torch's compiler
            torch.use_deterministic_algorithms(config.deterministic)
        torch.backends.cudnn.benchmark = not config.deterministic
        return cls(choose_device(config), config.amp, config.channels_last, config.eval_batch_size, config.compile)

    def move(self, batch: torch.Tensor) -> torch.Tensor:
        """A batch on the device, through pinned memory for CUDA so that nobody waits for the copy."""
        if self.device.type == "cuda" and batch.device.type == "cpu":
            batch = batch.pin_memory()
        return batch.to(self.device, non_blocking=True)

    def arrange(self, batch: torch.Tensor) -> torch.Tensor:
        """A batch in the memory format that nets expect."""
        last = self.channels_last and batch.dim() == 4
        return batch.contiguous(memory_format=torch.channels_last) if last else batch

    def place(self, images: torch.Tensor) -> torch.Tensor:
        """A batch as nets expect it: on the device, in their memory format."""
        return self.arrange(self.move(images))

    def ahead(self, parts: Iterable[Pair]) -> Iterator[Pair]:
        """`parts` on the device, in order. On CUDA the next is copied, on its own stream, while one is worked on."""
        if self.device.type != "cuda":
            for first, second in parts:
                yield self.move(first), self.move(second)
            return
        stream = _side_stream(self.device)
        waiting: Pair | None = None
        for part in itertools.chain(parts, [None]):
            if waiting is not None:
                torch.cuda.current_stream(self.device).wait_stream(stream)
                for tensor in waiting:
                    tensor.record_stream(torch.cuda.current_stream(self.device))
            ready, waiting = waiting, None
            if part is not None:
                with torch.cuda.stream(stream):
                    waiting = self.move(part[0]), self.move(part[1])
            if ready is not None:
                yield ready

    def place_net(self, net: torch.nn.Module) -> torch.nn.Module:
        """A net on the device, in the memory format its inputs will have, compiled where the study asks for it.

        Compiling changes how the net is run; its modules, their names and its state stay as they are. Batches have one
        shape (the last of an epoch may have another), so each is compiled for itself; `graphs` replays CUDA graphs.
        """
        net = net.to(self.device)
        if self.channels_last:
            net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if self.compile != "off":
            net.compile(dynamic=False, mode="reduce-overhead" if self.compile == "graphs" else None)
        return net

    @contextlib.contextmanager
    def autocast(self) -> Iterator[None]:
        """Mixed precision where the study asks for it."""
        if self.amp == "off":
            yield
            return
        with torch.autocast(self.device.type, dtype=AMP_TYPES[self.amp]):
            yield
