"""Random numbers that depend on what is done, never on who does it or when.

Every stream is named by (study seed, site, round, purpose): a site draws the same numbers in process, in the
simulator, in POC, after a restart, and whatever the other sites do. The global random state is never touched.
"""

from __future__ import annotations

import hashlib

import torch


def seed_of(*names: object) -> int:
    """A 63-bit seed from any printable parts."""
    text = "\x1f".join(str(name) for name in names).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def generator(*names: object) -> torch.Generator:
    """A CPU generator for the stream of that name; draws are made on the CPU so that devices agree."""
    return torch.Generator().manual_seed(seed_of(*names))
