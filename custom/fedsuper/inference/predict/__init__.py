"""`fedsuper predict`: files in, masks out."""
