"""Every problem of a data folder, named before training."""
