"""Where a study runs: in process (`local`) or on NVFlare (`flare`). Both drive the same federation and the same sites."""
