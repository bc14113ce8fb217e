"""Public sets of fundus photographs: optic disc and cup."""
