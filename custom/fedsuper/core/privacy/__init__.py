"""Differential privacy: the Gaussian mechanism on what a site sends, and what it has cost so far."""
