"""`fedsuper serve`: a page on this machine to try a super model: drop an image, see mask, model and reason."""
