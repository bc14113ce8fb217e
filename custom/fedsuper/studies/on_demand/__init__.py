"""Figures of the papers that are worth their time only when asked for: `fedsuper compare --with NAME`."""
