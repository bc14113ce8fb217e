"""What `fedsuper compare --with` can be asked for, known without loading what makes it."""

from __future__ import annotations

LOSS_SURFACE, ROUTING, INSIDE_SITES, INVERSION = "loss-surface", "routing", "inside-sites", "inversion"
# Name -> what it shows; those of `OUTSIDE` need a site that took no part.
EXHIBITS = {
    LOSS_SURFACE: "the loss around each method's model (FedSM, Fig. 4)",
    ROUTING: "test-time routing in time, its loss and its variants (IOP-FL, Table III, Figs. 7b, 8, 9)",
    INSIDE_SITES: "Dice by the number of sites inside (IOP-FL, Fig. 7a)",
    INVERSION: "what a server could see of an image in an update (IOP-FL, Fig. 10)",
}
OUTSIDE = (ROUTING, INSIDE_SITES)
