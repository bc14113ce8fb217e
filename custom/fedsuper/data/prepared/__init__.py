"""Samples as nets want them: in memory, in mapped files, or kept from an earlier run."""
