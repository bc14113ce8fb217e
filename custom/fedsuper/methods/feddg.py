"""FedDG (Liu et al. 2021): generalization by showing each site the other sites' looks.

Sites exchange low-frequency amplitudes of some training images (the bank). Each batch is an episode:

    w'   = w - meta_lr grad L_seg(x; w)                                        inner step on the image as it is
    step = grad L_seg(x; w) + grad_{w'} [L_seg(x~; w') + contrast L_boundary]    first order, as released

x~ is x with its amplitudes in the window moved towards those of a random image of another site, A <- (1-t) A + t
A', t ~ U(0, 1), phase kept. L_boundary contrasts mean features just inside and just outside every contour, of x and
x~ together, read where the net turns features into outputs. The server averages as FedAvg does, norm statistics
included (the released code keeps those apart, and swaps the mean alone).

IT SHARES IMAGE STATISTICS: amplitude spectra of single training images leave their site and reach all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pydantic import Field

from fedsuper.config import Strict
from fedsuper.core.contrast import band_embeddings, boundary_bands, contrast
from fedsuper.core.partition import output_layer
from fedsuper.core.spectrum import low_amplitudes, with_amplitudes
from fedsuper.core.state import Models
from fedsuper.core.supermodel import GLOBAL
from fedsuper.errors import FedSuperError
from fedsuper.methods.fedavg import FedAvg
from fedsuper.methods.protocol.nets import input_planes
from fedsuper.methods.protocol.server import Server, Update
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.methods.protocol.upload import Upload
from fedsuper.train.learner import Batch, Learner
from fedsuper.train.seeding import generator

BANK = "bank"
BRIGHTEST = 100.0  # no prepared pixel is further from zero: they are standardized


class FedDGKnobs(Strict):
    """`window` is L, `bank` how many images' spectra a site gives away, `contrast` the boundary loss's weight."""

    window: float = Field(0.01, ge=0, lt=0.5)
    bank: int = Field(16, ge=1)
    meta_lr: float = Field(0.001, ge=0)
    contrast: float = Field(0.1, ge=0)
    temperature: float = Field(0.05, gt=0)


class EpisodicLearner(Learner):
    """Steps that also lower the loss one step ahead, on the same image with another site's look."""

    def __init__(self, *args: Any, bank: torch.Tensor, knobs: FedDGKnobs, random: torch.Generator) -> None:
        super().__init__(*args)
        self.bank = bank
        self.knobs = knobs
        self.random = random

    def gradients(self, batch: Batch) -> torch.Tensor:
        origin = [weight.detach().clone() for weight in self.parameters]
        value = self.objective(batch)
        inner = self.gradient_of(value)
        self.move_to(origin, inner, -self.knobs.meta_lr)
        outer = self.gradient_of(self.transfer_loss(batch.images, self.restyle(batch.images), batch.masks))
        self.move_to(origin, inner, 0)
        self.set_gradients([first + second for first, second in zip(inner, outer, strict=True)])
        return value.detach()

    def restyle(self, images: torch.Tensor) -> torch.Tensor:
        """Each image with its amplitudes moved a random way towards those of a random entry of the bank."""
        picked = self.bank[torch.randint(len(self.bank), (len(images),), generator=self.random)]
        picked = self.compute.move(picked).to(images.dtype)
        share = self.compute.move(torch.rand(len(images), 1, 1, 1, generator=self.random)).to(images.dtype)
        own = low_amplitudes(images, self.knobs.window)
        return with_amplitudes(images, (1 - share) * own + share * picked, self.knobs.window)

    def transfer_loss(self, images: torch.Tensor, restyled: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        """The segmentation loss of the restyled images and the boundary contrast over both versions."""
        seen: list[torch.Tensor] = []
        hook = output_layer(self.net).register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        with self.compute.autocast(), hook:
            logits = self.net(torch.cat([images, restyled]))
        value = self.loss(logits[len(images):], masks)
        if self.knobs.contrast == 0:
            return value
        vectors, bands = band_embeddings(seen[0].to(masks.dtype), boundary_bands(masks).repeat(2, 1, 1, 1))
        return value + self.knobs.contrast * contrast(vectors, bands, self.knobs.temperature)


class FedDG(FedAvg[FedDGKnobs]):
    """FedAvg with episodic local steps.

    The bank (a few kilobytes) rides along in every round; a site adds its spectra once, as long as the server lacks
    them. Attendance: a site that has not come yet is missing from the bank; until another site's spectra are there,
    sites train as in FedAvg.
    """

    name = "feddg"
    paper = "Liu et al. 2021; IOP-FL Table II"
    travels = "w + amplitude spectra down, w up (spectra up once): shares image statistics"
    Knobs = FedDGKnobs

    def check(self, sites: Sequence[str]) -> list[str]:
        return [f"feddg: low-frequency amplitude spectra of up to {self.knobs.bank} training images per site are sent "
                "to the server and to all other sites; image statistics leave the sites"]

    def downlink(self, server: Server, site: str) -> Models:
        banks = {key: state for key, state in server.models.items() if key.startswith(f"{BANK}/")}
        return super().downlink(server, site) | banks

    def learners(self, site: SiteRound) -> list[Learner]:
        others = [key for key in sorted(site.received) if key.startswith(f"{BANK}/") and key != f"{BANK}/{site.name}"]
        if not others:
            return super().learners(site)
        bank = torch.cat([site.received[key]["amplitudes"] for key in others])
        random = generator(self.study.seed, site.name, site.round, "feddg")
        start = site.received[GLOBAL]
        return [site.learner(GLOBAL, start, EpisodicLearner, bank=bank, knobs=self.knobs, random=random)]

    def uplink(self, site: SiteRound, learners: Mapping[str, Learner]) -> Models:
        sent = super().uplink(site, learners)
        if f"{BANK}/{site.name}" in site.received:
            return sent
        if len(set(site.train.cases)) < site.minimum:
            raise FedSuperError(f"{site.name}: feddg sends spectra of single images, and those of fewer than "
                                f"{site.minimum} patients do not leave this site; use another method")
        return sent | {BANK: {"amplitudes": low_amplitudes(site.train.images[: self.knobs.bank], self.knobs.window)}}

    def uploads(self, server: Server, site: str, sent: Models) -> dict[str, Upload]:
        """The spectra come once: an amplitude is at most the sum of its image's pixels."""
        declared = super().uploads(server, site, sent)
        if f"{BANK}/{site}" in sent:
            return declared
        count, size = min(self.knobs.bank, server.samples[site]), self.study.image_size
        images = torch.zeros(count, input_planes(self.study, server.task), size, size)
        like = {"amplitudes": low_amplitudes(images, self.knobs.window)}
        return declared | {BANK: Upload(like, least=0, most=BRIGHTEST * size**2)}

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        banks = {f"{BANK}/{site}": update.models[BANK] for site, update in updates.items() if BANK in update.models}
        return super().aggregate(server, updates) | banks
