"""Files to masks, several images at once: on every core for itself, or beside a single net.

The nets see a window of images together, so that each model runs on all images of a window that chose it. What comes
out for an image does not depend on its window (`inference.passes`). On a CPU every core has windows of its own and
does all there is to do for their images (`every_core`); the last windows get smaller and smaller, so that no core waits
for another that has a whole one left. Where one net works at a time, on a GPU or because a mode adapts itself to each
image, threads read ahead and write behind while it runs:

    files --readers--> prepared images --nets, in windows--> answers --writers--> masks

Memory is bounded: no more is read ahead than fits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import torch

from fedsuper.data.images.io import Image, read_image
from fedsuper.errors import FedSuperError
from fedsuper.inference.passes import compute_threads, cores, pass_size
from fedsuper.inference.predict.every_core import Claims, on_every_core
from fedsuper.inference.segment import Answer, Prediction, Segmenter
from fedsuper.train.allocator import keep_freed_memory

WINDOW_PASSES = 8  # a window fills so many passes: enough that the images of each model fill theirs
WINDOW_ALONE = 16  # slices in a window where every slice is a pass of its own: selector and nets change places seldom
WINDOW_BYTES = 64 * 2**20  # a window is full at so many, however few its images are
READ_AHEAD_BYTES = 256 * 2**20
FEWEST = 3  # images read ahead, whatever their size

Numbered = tuple[int, Path]
# Called, perhaps in a thread of its own, with an image's number, the image and its prediction.
Write = Callable[[int, Image, Prediction], None]


@dataclass(frozen=True)
class _Opened:
    number: int
    image: Image
    prepared: torch.Tensor

    @property
    def bytes(self) -> int:
        return int(self.image.array.nbytes) + self.prepared.numel() * self.prepared.element_size()


@dataclass(frozen=True)
class _Window:
    images: list[_Opened]
    problems: list[tuple[int, FedSuperError]]
    answers: Future[list[Answer]]


class Pipeline:
    """Predicts files in order; adapting modes get one image at a time, since each may take long.

    `patients` names the patient of every number. Those of one patient, which must follow one another, vote together and
    therefore go through the nets together, however many they are.
    """

    def __init__(self, segmenter: Segmenter, write: Write, patients: Mapping[int, str] | None = None) -> None:
        self.segmenter = segmenter
        self.write = write
        self.patients = patients or {}
        self.ends: set[int] = set()
        self.claims: Claims[Numbered] = Claims([])
        predictor = segmenter.predictor
        self.together = pass_size(predictor.study.image_size, predictor.compute)
        self.slices = WINDOW_PASSES * self.together if self.together > 1 else WINDOW_ALONE
        self.window = 1 if segmenter.mode.adapts else self.slices
        self.every_core = not segmenter.mode.adapts and predictor.compute.device.type == "cpu"
        self.workers = cores() if self.every_core else 1
        self.ahead = FEWEST

    def run(self, paths: Sequence[Numbered]) -> Generator[tuple[int, FedSuperError | None]]:
        """Every number, in order, once its image is written; with the problem where it could not be."""
        self.ends = set({self._patient(number): number for number, _ in paths}.values())
        keep_freed_memory()
        return self._on_every_core(paths) if self.every_core else self._beside_one_net(paths)

    def _on_every_core(self, paths: Sequence[Numbered]) -> Generator[tuple[int, FedSuperError | None]]:
        """Every core does all there is to do for the images it takes."""
        self.claims = Claims([list(group) for _, group in groupby(paths, key=lambda one: self._patient(one[0]))])
        return on_every_core(self.claims, [number for number, _ in paths], self.workers, self._alone)

    def _alone(self, mine: Iterator[Numbered]) -> Iterator[tuple[int, FedSuperError | None]]:
        """All there is to do for the images that one core takes, window by window."""
        for window, problems in self._windows(self._opened(*one) for one in mine):
            yield from problems
            for one, answer in zip(window, self._predict(window), strict=True):
                yield one.number, self._finished(one, answer)

    def _finished(self, one: _Opened, answer: Answer) -> FedSuperError | None:
        try:
            self._finish(one.number, one.image, answer)
        except FedSuperError as problem:
            return problem
        return None

    def _beside_one_net(self, paths: Sequence[Numbered]) -> Generator[tuple[int, FedSuperError | None]]:
        """A window in the nets, the next images being read, the last ones being written."""
        beside = max(1, cores() // 2)
        readers, writers = compute_threads(beside, "read"), compute_threads(beside, "write")
        nets = compute_threads(1, "nets")
        under: deque[_Window] = deque()
        behind: deque[tuple[int, Future[None] | FedSuperError]] = deque()
        try:
            for window, problems in self._windows(self._read(readers, paths)):
                under.append(_Window(window, problems, nets.submit(self._predict, window)))
                if len(under) > 1:
                    behind.extend(self._write_behind(under.popleft(), writers))
                while len(behind) > 2 * self.window or (behind and _is_done(behind[0][1])):
                    yield _settled(*behind.popleft())
            while under:
                behind.extend(self._write_behind(under.popleft(), writers))
            while behind:
                yield _settled(*behind.popleft())
        finally:
            for pool in (readers, nets, writers):
                pool.shutdown(wait=True, cancel_futures=True)

    def _write_behind(
        self, done: _Window, writers: ThreadPoolExecutor
    ) -> list[tuple[int, Future[None] | FedSuperError]]:
        """Hand a window's answers to the writers, once they are there."""
        coming: dict[int, Future[None] | FedSuperError] = dict(done.problems)
        for one, answer in zip(done.images, done.answers.result(), strict=True):
            coming[one.number] = writers.submit(self._finish, one.number, one.image, answer)
        return sorted(coming.items(), key=lambda item: item[0])

    def _predict(self, window: list[_Opened]) -> list[Answer]:
        if not window:
            return []
        patients = [self._patient(one.number) for one in window]
        return self.segmenter.predict([one.prepared for one in window], patients)

    def _patient(self, number: int) -> str:
        return self.patients.get(number, f"image {number}")

    def _finish(self, number: int, image: Image, answer: Answer) -> None:
        self.write(number, image, self.segmenter.finish(answer, image.size))

    def _open(self, number: int, path: Path) -> _Opened:
        image = read_image(path)
        return _Opened(number, image, self.segmenter.predictor.prepare(image))

    def _opened(self, number: int, path: Path) -> _Opened | tuple[int, FedSuperError]:
        try:
            return self._open(number, path)
        except FedSuperError as problem:
            return number, problem

    def _read(
        self, pool: ThreadPoolExecutor, paths: Sequence[Numbered]
    ) -> Iterator[_Opened | tuple[int, FedSuperError]]:
        """The images in order, some of them read before they are asked for."""
        coming: deque[tuple[int, Future[_Opened]]] = deque()
        rest = iter(paths)
        while True:
            while len(coming) < self.ahead and (following := next(rest, None)) is not None:
                coming.append((following[0], pool.submit(self._open, *following)))
            if not coming:
                return
            number, future = coming.popleft()
            try:
                opened = future.result()
            except FedSuperError as problem:
                yield number, problem
                continue
            self.ahead = max(FEWEST, min(2 * self.window, READ_AHEAD_BYTES // max(opened.bytes, 1)))
            yield opened

    def _windows(
        self, images: Iterator[_Opened | tuple[int, FedSuperError]]
    ) -> Iterator[tuple[list[_Opened], list[tuple[int, FedSuperError]]]]:
        """Images that go through the nets together, and the problems met on the way."""
        window: list[_Opened] = []
        problems: list[tuple[int, FedSuperError]] = []
        most = self.window
        for one in images:
            if isinstance(one, tuple):
                problems.append(one)
                continue
            if not window:
                most = self._most()
            window.append(one)
            if one.number in self.ends and (len(window) >= most or self._is_full(window)):
                yield window, problems
                window, problems = [], []
        if window or problems:
            yield window, problems

    def _is_full(self, window: list[_Opened]) -> bool:
        slices = sum(len(each.prepared) for each in window)
        return slices >= self.slices or sum(each.bytes for each in window) >= WINDOW_BYTES

    def _most(self) -> int:
        """Images in a window that begins: at the end a core's share of those left, in whole passes."""
        if not self.every_core:
            return self.window
        share = -(-(self.claims.left + 1) // self.workers)
        return min(self.window, -(-share // self.together) * self.together)


def _is_done(what: Future[None] | FedSuperError) -> bool:
    return isinstance(what, FedSuperError) or what.done()


def _settled(number: int, what: Future[None] | FedSuperError) -> tuple[int, FedSuperError | None]:
    if isinstance(what, FedSuperError):
        return number, what
    try:
        return number, what.result()
    except FedSuperError as problem:
        return number, problem
