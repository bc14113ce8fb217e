"""Nets as programs that run without FedSuper: `torch.export` (pt2) and ONNX."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn
from torch.onnx.errors import OnnxExporterError

from fedsuper.errors import FedSuperError
from fedsuper.inference.predictor import Predictor, mean_over_flips


class Flipped(nn.Module):
    """Test-time augmentation: the mean of a net's logits over flips, as `prediction.tta` has it."""

    def __init__(self, net: nn.Module, flips: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.net = net
        self.flips = flips

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return mean_over_flips(self.net, images, self.flips)


def as_predicted(predictor: Predictor, expert: str) -> nn.Module:
    """The net of `expert` with what the study says of prediction: test statistics, test-time augmentation."""
    return with_flips(predictor.net(expert), predictor.flips)


def with_flips(net: nn.Module, flips: Sequence[Sequence[int]]) -> nn.Module:
    """The net itself where there is nothing to average."""
    return Flipped(net, flips) if len(flips) > 1 else net


def write_pt2(predictor: Predictor, net: nn.Module, path: Path, outputs: Sequence[str]) -> None:
    """One `torch.export` program; no pickle in it."""
    program = trace(predictor, net)
    # The file is raw tensors and JSON, but for the example input, which torch would pickle.
    program.example_inputs = None
    torch.export.save(program, path)


def write_onnx(predictor: Predictor, net: nn.Module, path: Path, outputs: Sequence[str]) -> None:
    """One ONNX file with its weights inside: `image` in, `outputs` out."""
    # It would say for every net that torchvision, whose operators no net here has, is not installed.
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            torch.onnx.export(
                trace(predictor, net), f=path, input_names=["image"], output_names=outputs, external_data=False,
                verbose=False,
            )
        except OnnxExporterError as error:
            reason = str(error.__cause__ or error).strip().splitlines()[0][:160]
            raise FedSuperError(f"--to onnx: {path.stem} uses what ONNX cannot say ({reason}); use --to pt2") from None


def trace(predictor: Predictor, net: nn.Module) -> torch.export.ExportedProgram:
    """The net as a graph for any number of slices; an example of one slice would fix the number at one.

    Traced twice: the closed-form selector reads a segmentation net's first convolutions, and neither the rest of that
    net nor its weights belong into the program.
    """
    size = predictor.study.image_size
    example = (torch.zeros(2, predictor.channels, size, size),)
    slices = ({0: torch.export.Dim("batch")},)
    whole = torch.export.export(net, example, dynamic_shapes=slices).module(check_guards=False)
    whole.graph.eliminate_dead_code(is_impure_node=lambda node: node.op in ("placeholder", "output"))
    read = {node.target for node in whole.graph.nodes if node.op == "get_attr"}
    for name, _ in [*whole.named_parameters(), *whole.named_buffers()]:
        if name not in read:
            owner, _, attribute = name.rpartition(".")
            delattr(whole.get_submodule(owner), attribute)
    whole.recompile()
    program = torch.export.export(whole, example, dynamic_shapes=slices)
    for node in program.graph.nodes:  # paths of the machine that exported
        node.meta.pop("stack_trace", None)
    return program
