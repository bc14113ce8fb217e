"""The ways to run a job on NVFlare: simulator, POC, production."""
