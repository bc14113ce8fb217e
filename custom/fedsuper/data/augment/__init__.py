"""Random variations of training batches."""
