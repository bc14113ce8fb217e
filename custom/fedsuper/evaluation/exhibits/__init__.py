"""What runs nets for the report: example images with masks, maps of features, routing watched while it is tuned."""
