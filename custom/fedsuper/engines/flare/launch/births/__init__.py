"""Processes that begin where another stands: forked with what it has imported, instead of started anew."""
