"""The NVFlare engine: one controller, one executor, and the ways to run them. The only importer of nvflare."""
