"""FT (Wang et al. 2019), local fine-tuning: after FedAvg's last round each site trains on from w_g, on its own data.

P_k = w_g after S local steps, S = 0 included: the state after each epoch is scored on the site's own validation
data and the best is kept, so fine-tuning can be useless but not harmful there.
"""

from __future__ import annotations

from pydantic import Field

from fedsuper.config import Strict
from fedsuper.methods.parts.personalized import Personalized
from fedsuper.methods.protocol.role import PERSONAL
from fedsuper.methods.protocol.site_round import SiteRound


class FTKnobs(Strict):
    """`epochs` bounds the fine-tuning, `lr` is the study's unless given."""

    epochs: int = Field(10, ge=0)
    lr: float | None = Field(None, gt=0)


class FT(Personalized[FTKnobs]):
    """Training rounds are FedAvg's; everything personal happens once, at the end, without the server."""

    name = "ft"
    paper = "Wang et al. 2019; FedSM Table 6"
    travels = "w down, w up"
    Knobs = FTKnobs

    def final_update(self, site: SiteRound) -> None:
        start = site.received[self.shared]
        learner = site.learner(PERSONAL, start, lr=self.knobs.lr)

        def keep() -> None:
            state = learner.state()
            site.keep_best(PERSONAL, site.dice(state), state)

        keep()
        site.fit([learner], self.knobs.epochs, "fine-tune", keep)
        site.store.models[PERSONAL] = site.best(PERSONAL) or start
