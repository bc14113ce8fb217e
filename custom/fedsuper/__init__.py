"""FedSuper: federated super models for medical image segmentation on NVIDIA FLARE."""

__version__ = "0.1.0"
