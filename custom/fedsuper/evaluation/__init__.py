"""Scores of super models on labelled data: per image, per site, per method; statistics and tables over them."""
