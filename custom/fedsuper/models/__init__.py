"""Segmentation nets, selector nets and their seeded first weights: one definition of each."""

from fedsuper.models.build import build_segmentation, build_selector, first_weights

__all__ = ["build_segmentation", "build_selector", "first_weights"]
