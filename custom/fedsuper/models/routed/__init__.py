"""The net mixed, layer by layer, from all experts."""
