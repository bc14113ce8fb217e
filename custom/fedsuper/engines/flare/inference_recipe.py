"""A super model in use as NVFlare recipes: inference and evaluation, for SimEnv, PocEnv and ProdEnv alike."""

from __future__ import annotations

from pydantic import ValidationError

from fedsuper.engines.flare.inference_controller import EvaluationController, InferenceController, ServingController
from fedsuper.engines.flare.inference_executor import EvaluationExecutor, InferenceExecutor, ServingExecutor
from fedsuper.engines.flare.recipe import SuperModelJob
from fedsuper.errors import FedSuperError
from fedsuper.federation.serving.request import OFFER
from fedsuper.schema import first_problem


class ServingRecipe(SuperModelJob):
    """One request to all sites; any number of them, also such as never trained."""

    def __init__(self, name: str, controller: ServingController, executor: ServingExecutor) -> None:
        super().__init__(name, min_sites=1, gpus=0)
        self.title = controller.title
        try:  # a request that makes no sense is told here, not at the server
            request = controller.request()
        except ValidationError as error:
            raise FedSuperError(f"this cannot be asked of sites ({first_problem(error)})") from None
        self.job.to_server(controller, id="serving")
        self.job.to_clients(executor, tasks=[OFFER, request.task])


class InferenceRecipe(ServingRecipe):
    """Every site segments its own inbox; see `InferenceController`."""

    def __init__(self, mode: str | None = None, gamma: float | None = None, vote: str = "case",
                 keep_gates: bool = False, seconds: float = 3600, supermodel: str | None = None) -> None:
        controller = InferenceController(mode, gamma, vote, keep_gates, seconds, supermodel)
        super().__init__(f"fedsuper-inference-{(mode or 'own').replace(':', '-')}", controller, InferenceExecutor(mode))


class EvaluationRecipe(ServingRecipe):
    """Every site scores every model on one part of its own split."""

    def __init__(self, split: str = "test", seconds: float = 3600, supermodel: str | None = None) -> None:
        controller = EvaluationController(split, seconds, supermodel)
        super().__init__("fedsuper-evaluate", controller, EvaluationExecutor(split))
