"""Images in, samples out: folder layout, image I/O with geometry, preprocessing, splits, checks before training."""
