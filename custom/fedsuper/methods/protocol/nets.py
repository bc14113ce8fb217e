"""A study's nets for a task, at the server and at the sites, and the weights they start from."""

from __future__ import annotations

import torch
from torch import nn

from fedsuper.config import Study
from fedsuper.core.state import State
from fedsuper.data.task import Task
from fedsuper.models.build import build_segmentation, build_selector, first_weights
from fedsuper.train.seeding import seed_of


def input_planes(study: Study, task: Task) -> int:
    """Input planes of every net: image channels times context slices."""
    return task.channels * study.preprocess.slices


def segmentation_net(study: Study, task: Task) -> nn.Module:
    """The study's segmentation net, one output per region of the task."""
    return build_segmentation(study.model, input_planes(study, task), len(task.regions))


def blueprint(study: Study) -> nn.Module:
    """The segmentation net without memory for weights: its modules and the names of its entries, nothing else."""
    with torch.device("meta"):
        return build_segmentation(study.model, 1, 1)


def trainable(study: Study, state: State) -> State:
    """The entries of a segmentation model that are parameters, in the net's order; buffers are left out."""
    return {name: state[name] for name, _ in blueprint(study).named_parameters()}


def selector_net(study: Study, task: Task, classes: int) -> nn.Module:
    """The study's selector."""
    return build_selector(study.selector, input_planes(study, task), classes)


def first_segmentation(study: Study, task: Task) -> State:
    """The first weights of every segmentation model of a study: global and personalized models share them."""
    return first_weights(lambda: segmentation_net(study, task), seed_of(study.seed, "segmentation"))


def first_selector(study: Study, task: Task, classes: int) -> State:
    """The selector's first weights."""
    return first_weights(lambda: selector_net(study, task, classes), seed_of(study.seed, "selector"))
