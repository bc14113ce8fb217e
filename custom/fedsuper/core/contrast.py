"""Contrast between the two sides of a boundary: features just inside a region against those just outside."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def boundary_bands(masks: torch.Tensor, width: int = 2) -> torch.Tensor:
    """Bands of `width` pixels inside and outside every region's contour: `[N, R, H, W]` to `[N, 2R, H, W]`."""
    size = 2 * width + 1
    grown = F.max_pool2d(masks, size, stride=1, padding=width)
    shrunk = 1 - F.max_pool2d(1 - masks, size, stride=1, padding=width)
    return torch.cat([masks - shrunk, grown - masks], dim=1)


def band_embeddings(features: torch.Tensor, bands: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean feature of every band that has pixels: vectors `[M, C]` and the band's number of each, `[M]`."""
    weights = F.adaptive_avg_pool2d(bands, (features.shape[2], features.shape[3]))
    size = weights.sum(dim=(2, 3))
    means = torch.einsum("nchw,nbhw->nbc", features, weights) / size.clamp(min=1e-6)[..., None]
    image, band = (size > 0).nonzero(as_tuple=True)
    return means[image, band], band


def contrast(vectors: torch.Tensor, classes: torch.Tensor, temperature: float) -> torch.Tensor:
    """InfoNCE over all pairs (i, j) of one class: -log e_ij / (e_ij + sum over other classes e_iq).

    e = exp(cos / temperature). Zero where there is no pair or nothing to tell apart.
    """
    unit = F.normalize(vectors, dim=1)
    similarity = unit @ unit.T / temperature
    same = classes[:, None] == classes[None, :]
    pairs = same & ~torch.eye(len(classes), dtype=torch.bool, device=classes.device)
    others = similarity.masked_fill(same, -torch.inf).logsumexp(dim=1, keepdim=True)
    if not bool(pairs.any()) or bool(same.all()):
        return vectors.sum() * 0
    return F.softplus(others - similarity)[pairs].mean()
