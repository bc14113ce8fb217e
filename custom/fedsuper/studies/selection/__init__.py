"""What every selector and gate is worth, on small synthetic federations of several kinds."""
