"""Gradient inversion: how much of a training image can be read from the update that a site sends?

    python -m fedsuper.studies.privacy.inversion --out runs/inversion

The attacker is the server. It knows the weights it sent, the weights that came back, and (the worst case) the learning
rate and the image's mask. A step of SGD on one image tells the gradient g = (w_sent - w_back) / lr; the attacker looks
for an image whose gradient points the same way (Geiping et al. 2020):

    x* = argmin_x  1 - cos(grad L(x, y; w), g) + tv * TV(x)

Each way to answer is attacked in the same way: as it is, with the change clipped, and with clipping and noise.
The picture shows the image and what the attacker sees of it (IOP-FL, Fig. 10).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from PIL import Image, ImageDraw
from torch import nn

from fedsuper.config.reading import parse_study
from fedsuper.core.privacy.accountant import spent
from fedsuper.core.privacy.gaussian import SENSITIVITY, system_random, with_noise
from fedsuper.core.state import State, clone
from fedsuper.data.dataset import load_samples
from fedsuper.data.layout import list_items
from fedsuper.data.preprocess import Preprocess
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.data.task import read_task
from fedsuper.files import atomic_write, atomic_write_json
from fedsuper.models.build import build_segmentation, first_weights
from fedsuper.train.losses import LOSSES

SIZE = 32
STUDY = {"image_size": SIZE, "model": {"channels": [16, 32, 64], "residual_units": 0, "norm": "instance"}}
LR, TV, STEPS, STARTS = 0.1, 0.2, 400, 1
CLIP = 1.0
WAYS: dict[str, float | None] = {"as it is": None, "clipped": 0.0, "noise 0.1": 0.1, "noise 1": 1.0}


@dataclass(frozen=True)
class Attacked:
    """One answer under attack; `likeness` is the correlation of the pixels, 1 for the image itself.

    `epsilon` is what this one release costs at delta 1e-5; None where there is no noise.
    """

    way: str
    likeness: float
    epsilon: float | None


def gradient(net: nn.Module, image: torch.Tensor, mask: torch.Tensor, graph: bool = False) -> list[torch.Tensor]:
    """grad L(x, y; w), in the order of the net's parameters."""
    loss = LOSSES["dice-bce"](net(image), mask)
    return list(torch.autograd.grad(loss, list(net.parameters()), create_graph=graph, allow_unused=True,
                                    materialize_grads=True))


def one_step(net: nn.Module, image: torch.Tensor, mask: torch.Tensor) -> State:
    """The weights after one step of SGD on one image: what a site with a single image would send."""
    slopes = dict(zip([name for name, _ in net.named_parameters()], gradient(net, image, mask), strict=True))
    return {name: tensor - LR * slopes[name] if name in slopes else tensor
            for name, tensor in clone(net.state_dict()).items()}


def invert(net: nn.Module, update: State, mask: torch.Tensor, shape: torch.Size, seed: int = 0) -> torch.Tensor:
    """The image that explains `update` best, of several starts."""
    origin = clone(net.state_dict())
    target = torch.cat([((origin[name] - update[name]) / LR).flatten() for name, _ in net.named_parameters()])
    random = torch.Generator().manual_seed(seed)
    best, image = float("inf"), torch.zeros(shape)
    for _ in range(STARTS):
        guess = torch.randn(shape, generator=random).mul_(0.1).requires_grad_()
        optimizer = torch.optim.Adam([guess], lr=0.05)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        for _ in range(STEPS):
            optimizer.zero_grad()
            slopes = torch.cat([slope.flatten() for slope in gradient(net, guess, mask, graph=True)])
            apart = 1 - torch.nn.functional.cosine_similarity(slopes, target, dim=0)
            rough = (guess.diff(dim=-1).abs().mean() + guess.diff(dim=-2).abs().mean())
            (apart + TV * rough).backward()
            optimizer.step()
            schedule.step()
        if (found := float(apart.detach())) < best:
            best, image = found, guess.detach().clone()
    return image


def likeness(image: torch.Tensor, other: torch.Tensor) -> float:
    """Correlation of the pixels: 1 for the same picture, about 0 for an unrelated one."""
    return float(torch.corrcoef(torch.stack([image.flatten(), other.flatten()]))[0, 1])


def attack(
    image: torch.Tensor, mask: torch.Tensor, ways: Sequence[str] = tuple(WAYS), seed: int = 0
) -> tuple[list[Attacked], list[torch.Tensor]]:
    """Each way's result, and the pictures the attacker sees."""
    config = parse_study(STUDY).model
    regions = mask.shape[1]
    net = build_segmentation(config, image.shape[1], regions)
    net.load_state_dict(first_weights(lambda: build_segmentation(config, image.shape[1], regions), seed))
    net.train()
    origin, honest = clone(net.state_dict()), one_step(net, image, mask)
    results, pictures = [], []
    for way in ways:
        noise = WAYS[way]
        update = honest if noise is None else with_noise(honest, origin, CLIP * LR, noise, system_random())
        seen = invert(net, update, mask, image.shape, seed)
        cost = spent({noise / SENSITIVITY: 1}) if noise else None
        results.append(Attacked(way, likeness(image, seen), cost))
        pictures.append(seen)
    return results, pictures


def example(folder: Path, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """A synthetic fundus image `[1, 3, S, S]` and its masks, prepared as for training."""
    write_retina(folder, sites=1, images=8, size=2 * SIZE, seed=seed, difficulty="easy")
    site = next(path for path in sorted(folder.iterdir()) if path.is_dir())
    found = load_samples(site, list_items(site, require_labels=True)[:1], read_task(folder),
                         Preprocess(image_size=SIZE, **parse_study(STUDY).preprocess.model_dump()))
    return found.images, found.masks.float()


def sheet(path: Path, image: torch.Tensor, results: Sequence[Attacked], pictures: Sequence[torch.Tensor]) -> None:
    """One row: the image, then what the attacker sees by each way to answer."""
    scale, margin, head = 5, 8, 34
    side = SIZE * scale
    page = Image.new("RGB", ((side + margin) * (len(pictures) + 1) + margin, side + head + margin), "white")
    draw = ImageDraw.Draw(page)
    titles = ["the image", *(f"{one.way}\nlikeness {one.likeness:.2f}" for one in results)]
    for column, (title, picture) in enumerate(zip(titles, [image, *pictures], strict=True)):
        left = margin + column * (side + margin)
        draw.multiline_text((left, 4), title, fill="black")
        page.paste(pixels(picture).resize((side, side), Image.Resampling.NEAREST), (left, head))
    atomic_write(path, page.save)


def pixels(image: torch.Tensor) -> Image.Image:
    """A prepared image for the eye: its first to ninety-ninth percentile as black to white."""
    low, high = torch.quantile(image, 0.01), torch.quantile(image, 0.99)
    scaled = ((image[0] - low) / (high - low).clamp(min=1e-6)).clamp(0, 1).mul(255).byte()
    return Image.fromarray(scaled.permute(1, 2, 0).numpy() if len(scaled) == 3 else scaled[0].numpy())


def run(out: Path, seed: int = 0, ways: Sequence[str] = tuple(WAYS)) -> list[Attacked]:
    """Attack one image by each way; writes OUT/inversion.json and OUT/inversion.png."""
    root = out / "data"
    image, mask = example(root, seed)
    results, pictures = attack(image, mask, ways, seed)
    atomic_write_json(out / "inversion.json", [asdict(one) for one in results])
    sheet(out / "inversion.png", image, results, pictures)
    return results


def main() -> None:
    """The command above."""
    parser = argparse.ArgumentParser(description="what a server can see of an image in a site's update")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for one in run(options.out, options.seed):
        cost = "no guarantee" if one.epsilon is None else f"epsilon {one.epsilon:.3g}"
        print(f"{one.way:<10} likeness {one.likeness:.3f}  {cost}")


if __name__ == "__main__":
    main()
