"""A hospital that did not train: join the selector, adapt with a few labels, choose what to label."""
