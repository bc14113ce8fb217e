"""What several sections draw with: the look of a figure, heat maps, labels that keep their distance."""
