"""A site that uses a super model on its own images, on NVFlare; apart from training, and without its rights."""

from __future__ import annotations

from nvflare.apis.fl_context import FLContext
from nvflare.apis.signal import Signal

from fedsuper.engines.flare import settings
from fedsuper.engines.flare.answering_executor import AnsweringExecutor, outlet_of, placed
from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import Message
from fedsuper.federation.serving.request import MINIMUM, PREDICT, SCORE
from fedsuper.federation.serving.site import ServingSite


class ServingExecutor(AnsweringExecutor):
    """Answers offers and one kind of request, where the server asks for exactly what the job says."""

    allowed: dict[str, object]

    def answer(self, task: str, message: Message, fl_ctx: FLContext, abort_signal: Signal) -> Message:
        """Let the site's part answer, if the request is the one this job was read for."""
        asked = message.info["request"]
        differing = sorted(key for key, value in self.allowed.items() if asked.get(key) != value)
        if differing:
            raise FedSuperError(f"the server asks for something else than the job says (differs in "
                                f"{', '.join(differing)}); write the job anew")
        try:
            site = self._site(fl_ctx, abort_signal)
        except FedSuperError as problem:  # its text may hold a path
            self.log_warning(fl_ctx, str(problem))
            raise FedSuperError("does not know its inbox or outbox; its own log says why") from None
        return outlet_of(fl_ctx).release(task, message, site.handle(task, message))

    def _site(self, fl_ctx: FLContext, abort_signal: Signal) -> ServingSite:
        site, known, run_folder = placed(fl_ctx)
        return ServingSite(
            site,
            inbox=settings.inbox_of(site, known),
            outbox=settings.outbox_of(site, known, run_folder),
            folder=settings.serving_folder_of(site, known, run_folder),
            states=settings.kept_states_of(site, known),
            minimum=max(MINIMUM, known.minimum or MINIMUM),
            stopped=lambda: bool(abort_signal.triggered),
        )


class InferenceExecutor(ServingExecutor):
    """Segments the site's inbox in one mode; masks, routing.csv and preview stay in the site's outbox."""

    _always_serialize_args = ("mode",)

    def __init__(self, mode: str | None = None) -> None:
        super().__init__()
        self.mode = mode
        self.allowed = {"task": PREDICT, "mode": mode}


class EvaluationExecutor(ServingExecutor):
    """Scores every model on one part of the site's own split."""

    _always_serialize_args = ("split",)

    def __init__(self, split: str = "test") -> None:
        super().__init__()
        self.split = split
        self.allowed = {"task": SCORE, "split": split}
