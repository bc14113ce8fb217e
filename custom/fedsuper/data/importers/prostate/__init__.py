"""Public sets of prostate MRI: the whole gland."""
