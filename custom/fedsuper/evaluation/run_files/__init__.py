"""A run folder: every file name in it, and the one reader of each."""
