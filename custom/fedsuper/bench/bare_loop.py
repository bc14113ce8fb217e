"""The least a program can do with a folder of pictures and one net: read, prepare, predict, write, one by one.

It runs in a process of its own, as such a program would: nothing that `predict` sets for its process helps it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import numpy as np
import torch
from PIL import Image

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.core.state import State
from fedsuper.models.build import build_segmentation, first_weights

WARM_UP = 8  # pictures


def study_of(side: int) -> Study:
    """The defaults, at an image size."""
    return parse_study({"method": "fedsm", "image_size": side})


def expert_weights(study: Study) -> State:
    """First weights whose masks are mostly background, as real ones are; noise would take long to compress."""
    weights = first_weights(lambda: build_segmentation(study.model, 3, 2), 0)
    last = [name for name in weights if name.endswith("bias") and len(weights[name]) == 2][-1]
    weights[last] -= 3
    return weights


@torch.no_grad()
def bare_loop(net: torch.nn.Module, images: list[Path], out: Path) -> None:
    """Read, prepare, one net, write; one file after the other."""
    out.mkdir(parents=True)
    for path in images:
        pixels = torch.from_numpy(np.asarray(Image.open(path), dtype=np.float32)).permute(2, 0, 1)[None]
        prepared = (pixels - pixels.mean()) / pixels.std()
        inside = net(prepared.contiguous())[0] > 0
        mask = inside[0].to(torch.uint8) + (inside[0] & inside[1]).to(torch.uint8)
        Image.fromarray(mask.numpy()).save(out / path.name)


class BareLoop:
    """The process; `seconds(out)` lets it go through all pictures of its folder once."""

    def __init__(self, side: int, images: Path) -> None:
        command = [sys.executable, "-m", "fedsuper.bench.bare_loop", str(side), str(images)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, out: Path) -> float:
        """How long the pictures took, their masks written to the new folder `out`."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{out}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def __enter__(self) -> BareLoop:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
                 ) -> None:
        self.process.communicate()


def _serve(side: int, folder: Path) -> None:
    torch.set_num_threads(1)
    images = sorted(folder.iterdir())
    net = build_segmentation(study_of(side).model, 3, 2).eval()
    net.load_state_dict(expert_weights(study_of(side)))
    for line in sys.stdin:
        out = Path(line.rstrip("\n"))
        bare_loop(net, images[:WARM_UP], out.with_name(f"{out.name}-warm"))
        started = time.perf_counter()
        bare_loop(net, images, out)
        print(time.perf_counter() - started, flush=True)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), Path(sys.argv[2]))
