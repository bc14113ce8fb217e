"""Segmentation nets, selector nets and their seeded first weights: one definition of each."""
