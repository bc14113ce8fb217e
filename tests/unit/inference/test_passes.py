"""Passes of one size: what comes out for a slice does not depend on the slices beside it."""

from __future__ import annotations

import pytest
import torch
from predict_inputs import familiar_super_model
from super_models import random_super_model

from fedsuper.inference.passes import compute_threads, pass_size, run_passes
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.familiarity import Familiarity
from fedsuper.train.device import Compute

CPU = Compute(torch.device("cpu"))
NETS = {
    "instance": {"channels": [8, 16, 32], "residual_units": 1},
    "batch": {"channels": [8, 16, 32], "residual_units": 1, "norm": "batch"},
    "plain": {"name": "plain-unet", "channels": [8, 16], "norm": "batch"},
}


@pytest.mark.parametrize("side", [32, 64, 128, 192])
@pytest.mark.parametrize("net", NETS)
def test_bits_do_not_depend_on_company_or_place(net: str, side: int) -> None:
    predictor = Predictor(random_super_model(["A"], model=NETS[net], image_size=side), CPU)
    images = torch.randn(11, 3, side, side, generator=torch.Generator().manual_seed(0))
    together, q = predictor.logits("A", images), predictor.selector_probabilities(images)
    order = torch.randperm(11, generator=torch.Generator().manual_seed(1))
    assert torch.equal(predictor.logits("A", images[order]), together[order])
    assert torch.equal(predictor.selector_probabilities(images[order]), q[order])
    for row in (0, 7, 10):
        assert torch.equal(predictor.logits("A", images[row : row + 1])[0], together[row])
        assert torch.equal(predictor.selector_probabilities(images[row : row + 1])[0], q[row])


def test_every_pass_has_the_same_size() -> None:
    seen: list[int] = []

    class Counting(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            seen.append(len(images))
            return images

    images = torch.randn(11, 1, 64, 64)
    assert torch.equal(run_passes(Counting(), images, CPU), images) and seen == [8, 8]
    assert [pass_size(side, CPU) for side in (32, 96, 97, 160, 161, 512)] == [8, 8, 4, 4, 1, 1]
    assert pass_size(64, Compute(torch.device("cuda"), eval_batch_size=5)) == 5


@pytest.mark.parametrize("kind", ["small", "statistics"])
def test_several_threads_may_predict_with_one_predictor(kind: str) -> None:
    model = familiar_super_model() if kind == "statistics" else random_super_model(["A", "B"])
    predictor = Predictor(model, CPU)
    judge = Familiarity.of(predictor)
    images = [torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(seed)) for seed in range(12)]

    def answer(case: torch.Tensor) -> list[torch.Tensor]:
        parts = [predictor.logits("A", case), predictor.logits("B", case), predictor.selector_probabilities(case)]
        return parts if judge is None else [*parts, judge.distances(case)]

    alone = [answer(case) for case in images]
    with compute_threads(4, "test") as threads:
        together = list(threads.map(answer, images))
        assert set(threads.map(lambda _: torch.get_num_threads(), range(8))) == {torch.get_num_threads()}
    assert all(torch.equal(one, other) for pair in zip(alone, together, strict=True)
               for one, other in zip(*pair, strict=True))


def test_what_comes_out_may_be_changed() -> None:
    images = torch.ones(3, 1, 64, 64)
    found = run_passes(torch.nn.Identity(), images, CPU)
    found.add_(1)
    assert not found.is_inference() and float(images.sum()) == images.numel()
