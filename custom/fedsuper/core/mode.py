"""How a super model predicts when nothing else is asked for: the names a method may write into its super model.

Every further way of predicting is a line in `inference/modes/__init__.py`, and only there.
"""

from __future__ import annotations

# The global model; also that model's name among the experts.
GLOBAL = "global"
# Every site its own personalized model.
OWN = "own"
# FedSM's gate over the sites' models, with the global one below the threshold.
SELECT = "select"
# FedSM-extra: the likeliest of the global model and the sites' models.
SELECT_ALL = "select-all"
# The models' probabilities, weighted by the selector's.
MIX = "mix"

# Modes whose selector has an output for the global model too, at index 0.
WITH_GLOBAL_CLASS = (SELECT_ALL, MIX)
