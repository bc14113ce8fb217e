"""What may leave a site, declared once: read by the site's outlet, by the server's door and by the document of it.

An answer has a plain part, whose schema is `REPLIES`, and models, which the method names (`Method.uploads`). The
document is docs/reference/what-travels.md; `travels` is the table it is made of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pydantic import BaseModel

from fedsuper.config import Study
from fedsuper.core.state import Models
from fedsuper.data.task import Task
from fedsuper.federation.door.last_replies import CalibrateReply, HandoverReply, SettleReply
from fedsuper.federation.door.replies import DescribeReply, FinishReply, TrainReply
from fedsuper.federation.messages import CALIBRATE, DESCRIBE, FINISH, HANDOVER, SETTLE, TRAIN
from fedsuper.federation.serving.request import OFFER, PREDICT, SCORE, Lacking, PredictionSummary, ScoreSummary
from fedsuper.methods import create_method
from fedsuper.methods.protocol.method import Method
from fedsuper.methods.protocol.nets import first_segmentation
from fedsuper.methods.protocol.server import Server
from fedsuper.methods.protocol.upload import Upload, model

SUMS = "feature-sums"  # n, sum and sum of outer products of image features, with the hand-over
QUALITY = "quality-sums"  # the same of what masks of validation images look like, with their Dice
REPLIES: dict[str, type[BaseModel]] = {
    DESCRIBE: DescribeReply, TRAIN: TrainReply, FINISH: FinishReply, HANDOVER: HandoverReply,
    CALIBRATE: CalibrateReply, SETTLE: SettleReply,
    OFFER: Lacking, PREDICT: PredictionSummary, SCORE: ScoreSummary,
}


def declared_models(task: str, method: Method, server: Server, site: str, sent: Models) -> dict[str, Upload]:
    """The models that an answer carries; `method` is the study's, `sent` what the server sent with the task.

    Sums are not among them: they are no model, `door.tensors.check_sums` knows them.
    """
    if task == TRAIN:
        return method.during(server.phase).uploads(server, site, sent)
    if task == FINISH:
        first = first_segmentation(method.study, server.task)
        return {role.name: model(first, optional=True) for role in method.roles() if role.holder == "site"}
    return {}


@dataclass(frozen=True)
class Travel:
    """A model that leaves a site: with which task, in which phase, what it is and how many numbers it holds."""

    task: str
    phase: str
    name: str
    what: str
    numbers: int


def travels(study: Study, task: Task) -> list[Travel]:
    """Every model that a study lets out of a site, feature sums included, in the order of the tasks."""
    method = create_method(study)
    sites = ["one", "other"]
    server = Server(study, task, sites, dict.fromkeys(sites, 1000))
    server.models = method.start(server)
    found: list[Travel] = []
    for phase in method.phases():
        server.phase = phase.name
        sent = method.during(phase.name).downlink(server, sites[0])
        found += [_travel(TRAIN, phase.name, *each) for each in
                  declared_models(TRAIN, method, server, sites[0], sent).items()]
    found += [_travel(FINISH, "", *each) for each in declared_models(FINISH, method, server, sites[0], {}).items()]
    return [
        *found,
        Travel(HANDOVER, "", SUMS, "sums over training images: how many, features, their products", 0),
        Travel(CALIBRATE, "", QUALITY, "sums over validation images and models: looks of masks, Dice, products", 0),
    ]


def _travel(task: str, phase: str, name: str, upload: Upload) -> Travel:
    if upload.most < math.inf:
        what = f"figures between {upload.least:g} and {upload.most:g}"
    elif upload.origin is None:
        what = "a gradient or a difference"
    else:
        what = "a model"
    return Travel(task, phase, name, what, sum(tensor.numel() for tensor in upload.like.values()))
