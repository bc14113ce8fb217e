"""The report of a run: figures, example overlays and one HTML page that needs no network."""
