"""Synthetic federations: made-up hospitals with real differences, to try everything without patient data."""
