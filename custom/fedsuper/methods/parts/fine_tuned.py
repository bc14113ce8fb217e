"""A model fine-tuned at home, without validation images: the mean of its weights over the second half of the epochs.

    P = 1/(E - floor(E/2)) sum_{e > E/2} w_e,     w_e the weights after epoch e of E

The epoch that is best on a handful of validation images is the best by luck, and its Dice there says too much of it.
The mean over epochs takes the noise of single steps out and leaves validation images to judge by.
"""

from __future__ import annotations

from fedsuper.core.aggregate import weighted_mean
from fedsuper.core.state import State
from fedsuper.methods.protocol.role import PERSONAL
from fedsuper.methods.protocol.site_round import SiteRound

PURPOSE = "fine-tuned"


def fine_tuned(site: SiteRound, start: State, epochs: int, anew: bool = False) -> State:
    """`start` after `epochs` epochs at home; `anew` without the moments that the personalized model's training left.

    Whatever is tuned in one round sees the same batches. The site's store and losses stay as they were.
    """
    kept, losses = dict(site.store.models), dict(site.losses)
    if anew:
        site.store.models.pop(f"optimizer/{PERSONAL}", None)
    learner = site.learner(PERSONAL, start)
    seen: list[State] = []
    site.fit([learner], epochs, PURPOSE, lambda: seen.append(learner.state()))
    site.store.models, site.losses = kept, losses
    late = seen[epochs // 2:]
    return weighted_mean(late, [1.0] * len(late))
