"""The super model in use inside the federation: every site predicts or scores its own images, and tells only sums."""
