"""Test-time routing (IOP-FL outside the federation): the tuner, its loss, its settings and its file."""
