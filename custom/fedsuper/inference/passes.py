"""Nets over slices in passes of one fixed size, so that what comes out for an image depends on that image alone.

Libraries choose their kernels by the shape of a batch: the same slice alone and among seven others differs in the last
bits, and a pixel at the threshold would fall to one side or the other with the company it is in. A pass therefore
always has the same size, filled up with zeros where slices are missing. A mask is then the same, bit for bit, in a
folder, by itself, after a resumed run, at the desk and inside the federation. Where a slice is large a pass holds one:
larger ones gain nothing there.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from fedsuper.train.device import Compute

# Slices of up to so many pixels a side share a pass of so many on a CPU; larger ones run one by one.
CPU_PASSES = ((96, 8), (160, 4))


def pass_size(side: int, compute: Compute) -> int:
    """Slices in a pass for images of that side: a matter of the study and the device, never of the images at hand."""
    if compute.device.type != "cpu":
        return compute.eval_batch_size
    return next((size for limit, size in CPU_PASSES if side <= limit), 1)


def run_passes(net: nn.Module, images: torch.Tensor, compute: Compute) -> torch.Tensor:
    """Outputs of a net in evaluation mode for prepared slices `[N, C, S, S]`, on the CPU in float32."""
    if net.training:
        net.eval()  # a walk through all its modules
    size = pass_size(images.shape[-1], compute)
    short = -len(images) % size
    whole = torch.cat([images, images.new_zeros(short, *images.shape[1:])]) if short else images
    outputs = []
    for chunk in torch.split(whole, size):
        with torch.inference_mode(), compute.autocast():
            outputs.append(net(compute.place(chunk)).float().cpu())
    return torch.cat(outputs)[: len(images)]  # a tensor like any other: what inference mode made may not be changed


def compute_threads(count: int, name: str) -> ThreadPoolExecutor:
    """Threads that compute as this one does: torch would let each of them take all cores for every operation."""
    return ThreadPoolExecutor(count, name, initializer=torch.set_num_threads, initargs=(torch.get_num_threads(),))


def cores() -> int:
    """The processor's cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
