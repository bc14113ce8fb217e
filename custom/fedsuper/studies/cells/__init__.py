"""The runs of a comparison: one study, one folder each, trained one after the other or side by side."""
