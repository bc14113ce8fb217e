"""What `fedsuper predict` is given: a super model on disk, photographs, volumes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import nibabel
import numpy as np
import torch
from PIL import Image as Pillow
from super_models import random_super_model

from fedsuper.core.calibration import choose_candidate, evaluate_candidates
from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.images.io import read_image
from fedsuper.inference.artifact import save_super_model
from fedsuper.inference.passes import run_passes
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.closed_form import with_sums
from fedsuper.train.device import Compute


def saved(model: SuperModel, folder: Path) -> Path:
    """The model in a folder."""
    save_super_model(model, folder)
    return folder


def picture(path: Path, size: tuple[int, int] = (40, 30), seed: int = 0) -> Path:
    """A photograph of width and height `size`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    Pillow.fromarray(pixels).save(path)
    return path


def volume(path: Path, shape: tuple[int, int, int] = (24, 28, 6)) -> Path:
    """A NIfTI volume with an oblique affine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    affine = np.array([[-0.5, 0.05, 0, 10], [0.05, 0.5, 0, -20], [0, 0, 3, 5], [0, 0, 0, 1.0]])
    data = np.random.default_rng(1).normal(100, 20, shape).astype(np.float32)
    nibabel.save(nibabel.Nifti1Image(data, affine), path)
    return path


def familiar_super_model() -> SuperModel:
    """A super model of two sites, trained on noise, that knows how far images of noise lie from both."""
    model = random_super_model(["A", "B"])
    compute = Compute(torch.device("cpu"))
    predictor = Predictor(model, compute)
    with tempfile.TemporaryDirectory() as folder:
        paths = [picture(Path(folder) / f"{seed}.png", (32, 32), seed=seed) for seed in range(48)]
        images = torch.cat([predictor.prepare(read_image(path)) for path in paths])
    features = run_passes(predictor.feature_net(), images, compute).double()
    sums = [FeatureSums.of(features[:12]), FeatureSums.of(features[12:24])]
    counts = {site: evaluate_candidates(sums, features[rows], label, list(range(12)))
              for label, (site, rows) in enumerate({"A": slice(24, 36), "B": slice(36, 48)}.items())}
    return with_sums(model, sums, choose_candidate(counts))
