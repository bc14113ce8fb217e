"""Where a study runs: in process (`local`) or on NVFlare (`flare`), with the same federation and the same sites."""
