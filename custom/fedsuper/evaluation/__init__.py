"""Scores of super models on labeled data: per image, per site, per method; statistics and tables over them."""
