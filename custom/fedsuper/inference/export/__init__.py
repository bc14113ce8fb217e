"""A super model handed to other tools: pt2, ONNX, MONAI bundle."""
