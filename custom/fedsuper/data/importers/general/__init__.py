"""Data of any task in a common folder shape: image and mask files, nnU-Net."""
