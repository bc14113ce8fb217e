"""Test-time routing: tune a routed net's gates on unlabeled images (IOP-FL, III-C)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedsuper.config import RoutingConfig
from fedsuper.core.state import State, clone
from fedsuper.inference.routing.loss import RoutingLoss
from fedsuper.models.routed.routed_net import RoutedNet
from fedsuper.train.device import Compute
from fedsuper.train.optimizers import Adam
from fedsuper.train.seeding import generator

# Called after every epoch with the epochs done, the epochs in all and the loss.
Progress = Callable[[int, int, float], None]


SHRUNK = 2.0  # regions smaller or larger by more than this factor than the untuned ones are not kept


@dataclass(frozen=True)
class Turn:
    """A flip and quarter turns of square images, and their inverse."""

    quarters: int = 0
    flip: bool = False

    def apply(self, images: Tensor) -> Tensor:
        """Flip, then turn."""
        return torch.rot90(images.flip(-1) if self.flip else images, self.quarters, (-2, -1))

    def undo(self, images: Tensor) -> Tensor:
        """Turn back, then flip back."""
        back = torch.rot90(images, -self.quarters, (-2, -1))
        return back.flip(-1) if self.flip else back


# The images of a step, their noise, and how the noisy ones are turned.
Part = tuple[Tensor, Tensor, Turn]


@dataclass
class Epoch:
    """The routed net as it stood after `number` epochs (0: untuned) and what it made of the images it is tuned on."""

    number: int
    loss: float
    logits: Tensor
    coefficients: dict[str, Tensor]
    sound: bool = True  # whether its regions are still about as large as the untuned ones


@dataclass
class Tuned:
    """The epoch that is kept and its gates; the loss of every epoch that was run, and the seconds spent by its end."""

    best: Epoch
    gates: State
    losses: list[float]
    seconds: list[float]


class RoutingTuner:
    """Adam on the gates of one routed net. Never sees a label: all it is given are images.

    Each image's noise is drawn once from a stream named by the image itself. The losses of two epochs therefore differ
    by the gates alone, and an image is tuned alike whichever images come before it.
    """

    def __init__(self, net: RoutedNet, config: RoutingConfig, compute: Compute, seed: int) -> None:
        self.net = net
        self.config = config
        self.compute = compute
        self.seed = seed
        self.loss = RoutingLoss.from_config(config)
        self.start = clone(net.state_dict())

    def tune(
        self,
        cases: Sequence[Tensor],
        progress: Progress | None = None,
        watch: list[Epoch] | None = None,
        start: Tensor | None = None,
    ) -> Tuned:
        """Tune from the untuned gates on `cases`, `[Z, C, S, S]` each, and leave the net in the best state found.

        An epoch is one step per image, or per `eval_batch_size` slices of a volume. The best state is the one of the
        lowest loss over all images; of equals the earliest. `seconds_per_image` bounds the time for `cases` together in
        proportion to their number. `watch` collects every epoch. `start` is a row of coefficients to begin at.
        """
        parts = [(part, self._noise(part), self._turn(part)) for part in self._parts(cases)]
        self.net.load_state_dict(self.start)
        if start is not None:
            self.net.begin_at(start)
        optimizer = Adam(self.net.parameters(), self.config.lr)
        deadline = None if self.config.seconds_per_image is None else self.config.seconds_per_image * len(cases)
        started = time.perf_counter()
        best: tuple[Epoch, State] | None = None
        losses: list[float] = []
        seconds: list[float] = []
        # With a single part the training pass itself tells the loss of the state it starts from.
        alone = len(parts) == 1 and self.config.dropout == 0
        untuned: Tensor | None = None
        for number in range(self.config.epochs + 1):
            gates = clone(self.net.state_dict())
            epoch = self._pass(parts, optimizer if alone and number < self.config.epochs else None, number)
            size = epoch.logits.sigmoid().sum(dim=(0, 2, 3))
            untuned = size if untuned is None else untuned
            epoch.sound = not self.config.guard or alike(size, untuned)
            losses.append(epoch.loss)
            seconds.append(time.perf_counter() - started)
            if best is None or (epoch.sound and epoch.loss < best[0].loss):
                best = epoch, gates
            if watch is not None:
                watch.append(epoch)
            if progress is not None:
                progress(number, self.config.epochs, epoch.loss)
            settled = 0 < self.config.patience <= number - best[0].number
            if number == self.config.epochs or settled or _late(seconds, deadline):
                break
            if not alone:
                self._pass(parts, optimizer, number)
        assert best is not None
        self.net.load_state_dict(best[1])
        return Tuned(*best, losses, seconds)

    @torch.no_grad()
    def answer(self, images: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits of the net as it stands, on the CPU, and the routing matrix, its mean over the images."""
        logits: list[Tensor] = []
        rows: dict[str, Tensor] = {}
        for chunk in torch.split(images, self.compute.eval_batch_size):
            logits.append(self._forward(self.compute.place(chunk)).float().cpu())
            self._add_rows(rows, len(chunk))
        return torch.cat(logits), {name: row / len(images) for name, row in rows.items()}

    def _add_rows(self, rows: dict[str, Tensor], images: int) -> None:
        """Add the coefficients of the last pass's first `images` images, layer by layer."""
        for name, row in self.net.coefficients(images).items():
            rows[name] = rows.get(name, 0) + row * images

    def _pass(self, parts: list[Part], optimizer: torch.optim.Optimizer | None, number: int) -> Epoch:
        """Once over all images; with an optimizer, a step after each part."""
        total, count = 0.0, 0
        logits: list[Tensor] = []
        rows: dict[str, Tensor] = {}
        self.net.drop(None if optimizer is None else generator(self.seed, "routing-dropout", str(number)))
        for images, noise, turn in parts:
            with torch.set_grad_enabled(optimizer is not None):
                clean, noisy = self._both(self.compute.place(images), self.compute.place(noise), turn)
                value = self.loss(clean, noisy)
            if optimizer is not None:
                optimizer.zero_grad(set_to_none=True)
                value.backward()
                optimizer.step()
            total, count = total + float(value.detach()) * len(images), count + len(images)
            logits.append(clean.detach().float().cpu())
            self._add_rows(rows, len(images))
        self.net.drop(None)
        return Epoch(number, total / count, torch.cat(logits), {name: row / count for name, row in rows.items()})

    def _both(self, images: Tensor, noise: Tensor, turn: Turn) -> tuple[Tensor, Tensor]:
        """Logits of images and noisy, perhaps turned images (turned back); one batch of both, unless a batch shares
        its statistics.
        """
        changed = turn.apply(images + noise)
        if self.config.norm_statistics == "batch":
            noisy = self._forward(changed)
            return self._forward(images), turn.undo(noisy)
        clean, noisy = self._forward(torch.cat([images, changed])).chunk(2)
        return clean, turn.undo(noisy)

    def _forward(self, images: Tensor) -> Tensor:
        with self.compute.autocast():
            logits: Tensor = self.net(images)
            return logits

    def _parts(self, cases: Sequence[Tensor]) -> list[Tensor]:
        size = self.compute.eval_batch_size
        groups = [torch.cat(list(cases))] if self.config.norm_statistics == "batch" else cases
        return [part for group in groups for part in group.split(size)]

    def _turn(self, images: Tensor) -> Turn:
        """A flip and quarter turns for the images of a step, drawn once from a stream named by the first of them."""
        if not self.config.turns:
            return Turn()
        draw = torch.randint(8, (), generator=generator(self.seed, "routing-turn", _digest(images[0])))
        return Turn(int(draw) % 4, int(draw) >= 4)

    def _noise(self, images: Tensor) -> Tensor:
        """Eq. 7's epsilon ~ N(0, noise^2): inputs have unit variance, so .5 is half a standard deviation."""
        streams = [generator(self.seed, "routing-noise", _digest(image)) for image in images]
        return self.config.noise * torch.stack([torch.randn(images.shape[1:], generator=stream) for stream in streams])


def alike(size: Tensor, untuned: Tensor) -> bool:
    """Whether every region is between half and twice its untuned size: beyond that the loss was won by giving up."""
    return bool(((size >= untuned / SHRUNK) & (size <= untuned * SHRUNK)).all())


def _digest(image: Tensor) -> str:
    return hashlib.blake2b(image.contiguous().numpy().tobytes()).hexdigest()


def _late(seconds: Sequence[float], deadline: float | None) -> bool:
    """Whether another epoch as long as those before would end past the deadline."""
    return deadline is not None and seconds[-1] * (len(seconds) + 1) / len(seconds) > deadline
