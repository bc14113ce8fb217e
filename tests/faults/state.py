"""What server and sites keep on disk: torn, lost, undone, or asked to go on without one of them."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

from play import Play, Score
from provisioned import SERVER, Provisioned

from fedsuper.federation.checkpoints import MODELS
from fedsuper.train.checkpoint import _packed, _unpacked, load_models


def play(place: Provisioned, score: Score) -> None:
    """A finished study is asked for more, each time with something broken before."""
    show = Play(place, "state", seed=8, rounds=3)
    show.start()
    show.ends()
    kept = (place.machine(SERVER) / "state").glob("*/server/round-00003.safetensors")
    server = max(kept, key=lambda path: path.stat().st_mtime).parent
    with score.fault("the server's newest checkpoint torn: the one before it counts"):
        newest = server / "round-00003.safetensors"
        newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
        more(show, 4)
    with score.fault("a round undone with --from-round"):
        more(show, 5, "--from-round", "3")
    with score.fault("a site's state lost: one line that names it and what to do; restored, it goes on"):
        site = place.sites[1]
        state = place.machine(site) / "state" / server.parent.name
        shutil.move(state, state.with_name("aside"))
        at = len(show.lines)
        try:
            more(show, 6, code=2, min_sites=3)
            told = [line for line in show.lines[at:] if site in line and "restore the site's state folder" in line]
            assert told, show.tail()
        finally:
            shutil.rmtree(state, ignore_errors=True)
            shutil.move(state.with_name("aside"), state)
        more(show, 6)
    with score.fault("a checkpoint's header altered: noticed, the one before it counts"):
        newest = server / "round-00006.safetensors"
        alter_round(newest, 9)
        more(show, 7)
    with score.fault("a model of the newest checkpoint torn: the one before it counts"):
        named = load_models(server / "round-00007.safetensors")[1][MODELS]
        model = server / MODELS / f"{named['global']}.safetensors"
        model.write_bytes(model.read_bytes()[: model.stat().st_size // 2])
        more(show, 8)
    score.settle(show, show.check_bits)


def alter_round(checkpoint: Path, number: int) -> None:
    """Write another round's number into a checkpoint's header, as somebody would who knows its form."""
    data = checkpoint.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    values = json.loads(_unpacked(header["__metadata__"]["values"]))
    assert values["round"] != number
    header["__metadata__"]["values"] = _packed(json.dumps(values | {"round": number}))
    written = json.dumps(header).encode()
    checkpoint.write_bytes(struct.pack("<Q", len(written)) + written + data[8 + length:])


def more(show: Play, rounds: int, *options: str, code: int = 0, **federation: object) -> None:
    """Go on to so many rounds."""
    show.start("--resume", "--set", f"rounds={rounds}", *options,
               *(word for key, value in federation.items() for word in ("--set", f"federation.{key}={value}")))
    show.ends(code)
    show.study["rounds"] = rounds


def leaver(place: Provisioned, score: Score) -> None:
    """A site leaves for good."""
    show = Play(place, "leaver", seed=9, rounds=2)
    show.start()
    show.ends()
    with score.fault("a site leaves for good (--without): asked no more, what it gave stays"):
        more(show, 4, "--without", place.sites[0])
        assert show.missing() == [[], [], *[[place.sites[0]]] * 3], show.missing()
    score.settle(show, show.check_bits)
