"""Method `ttt`: FedAvg with a rotation head that travels, is averaged and is handed over with its model."""

import math

import torch

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.core.aggregate import weighted_mean
from fedsuper.core.supermodel import GLOBAL
from fedsuper.data.prepared.samples import Samples
from fedsuper.data.task import Task
from fedsuper.methods import create_method
from fedsuper.methods.protocol.nets import segmentation_net
from fedsuper.methods.protocol.server import Server, Update
from fedsuper.methods.protocol.site_round import SiteRound, SiteStore
from fedsuper.methods.ttt import BEST_HEAD
from fedsuper.models.rotation import ROTATION_HEAD, RotationHead, rotation_loss, turned
from fedsuper.train.device import Compute

TASK = Task("retina", 3, {"disc": (1, 2), "cup": (2,)})
SIZES = {"A": 3, "B": 5}


def study(method: str, **knobs: object) -> Study:
    net = {"channels": [4, 6, 8], "residual_units": 0, "norm": "batch"}
    base = {"image_size": 32, "batch_size": 4, "optimizer": {"lr": 0.01}, "model": net}
    return parse_study(base | {"method": method} | ({method: knobs} if knobs else {}))


def samples(seed: int, count: int) -> Samples:
    random = torch.Generator().manual_seed(seed)
    names = [f"{seed}-{index}" for index in range(count)]
    masks = (torch.rand(count, 2, 32, 32, generator=random) > 0.5).to(torch.uint8)
    upright = torch.linspace(3, -3, 32).reshape(1, 1, 32, 1)  # bright above, dark below: a turn can be told
    return Samples(torch.randn(count, 3, 32, 32, generator=random) + upright, masks, names, names)


class Federation:
    """Rounds without engines: downlink, local update, aggregate."""

    def __init__(self, made: Study) -> None:
        self.study, self.method = made, create_method(made)
        self.server = Server(study=made, task=TASK, sites=list(SIZES), samples=dict(SIZES))
        self.server.models = self.method.start(self.server)
        self.stores = {name: SiteStore() for name in SIZES}

    def round(self) -> dict[str, Update]:
        updates = {}
        for label, (name, count) in enumerate(SIZES.items()):
            data = samples(label, count)
            site = SiteRound(
                name=name, label=label, classes=2, round=self.server.round + 1, study=self.study, task=TASK, train=data,
                val=data, compute=Compute(torch.device("cpu")), store=self.stores[name],
                received=self.method.downlink(self.server, name),
            )
            updates[name] = Update(self.method.local_update(site), count)
        self.server.models |= self.method.aggregate(self.server, updates)
        self.server.round += 1
        self.server.accepted |= dict.fromkeys(SIZES, self.server.round)
        return updates


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_weight_zero_is_fedavg_bit_for_bit():
    plain, joint = Federation(study("fedavg")), Federation(study("ttt", weight=0.0))
    for _ in range(2):
        plain.round(), joint.round()
    assert same(plain.server.models[GLOBAL], joint.server.models[GLOBAL])


def test_head_and_model_are_averaged_by_sample_count():
    made = Federation(study("ttt"))
    first = made.server.models[ROTATION_HEAD]
    updates = made.round()
    for role in (GLOBAL, ROTATION_HEAD):
        expected = weighted_mean([update.models[role] for update in updates.values()], list(SIZES.values()))
        assert same(made.server.models[role], expected)
    assert not same(made.server.models[ROTATION_HEAD], first)


def test_optimizer_state_of_the_head_is_kept_too():
    made = Federation(study("ttt"))
    made.round()
    kept = made.stores["A"].models["optimizer/global"]
    assert any("head" in name for name in kept) and any("net." in name for name in kept)


def test_the_rotation_task_is_learned():
    made = Federation(study("ttt"))
    for _ in range(20):
        made.round()
    net, head = segmentation_net(made.study, TASK), RotationHead(made.server.models[ROTATION_HEAD]["weight"].shape[1])
    net.load_state_dict(made.server.models[GLOBAL])
    head.load_state_dict(made.server.models[ROTATION_HEAD])
    with torch.no_grad():
        loss = float(rotation_loss(net.train(), head, *turned(samples(9, 4).images)))
    assert loss < 0.9 * math.log(4)  # guessing costs log 4


def test_the_head_handed_over_belongs_to_the_best_model():
    made = Federation(study("ttt"))
    heads = [made.server.models[ROTATION_HEAD]]
    for score in (0.1, 0.5, 0.3):
        made.server.note_score(GLOBAL, score, made.server.models[GLOBAL])
        made.round()
        heads.append(made.server.models[ROTATION_HEAD])
    made.server.note_score(GLOBAL, 0.2, made.server.models[GLOBAL])
    super_model = made.method.super_model(made.server)
    assert same(super_model.extras[ROTATION_HEAD], heads[1]) and same(made.server.models[BEST_HEAD], heads[1])
    made.server.note_score(GLOBAL, 0.9, made.server.models[GLOBAL])
    assert same(made.method.super_model(made.server).extras[ROTATION_HEAD], heads[3])
    assert list(super_model.experts()) == [GLOBAL]
