"""The one way out of a site: what is declared leaves, is written down, and nothing else does."""
