"""Who stands out: changes far longer than the others' and than earlier ones are refused; `clip` bounds the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median

from fedsuper.core.robust import clipped, distance, stands_out, towers
from fedsuper.core.state import Models
from fedsuper.methods.protocol.upload import Upload

REMEMBERED = 32  # earlier changes of a role that a new one is compared with

Declared = Mapping[str, Mapping[str, Upload]]  # by site and role
Lengths = dict[str, dict[str, float]]  # by role and site


def by_role(moved: Mapping[str, Mapping[str, float]]) -> Lengths:
    """How far every model moved, as it was measured when its site's answer was read."""
    roles = dict.fromkeys(role for lengths in moved.values() for role in lengths)
    return {role: {site: lengths[role] for site, lengths in moved.items() if role in lengths} for role in roles}


def too_long(lengths: Lengths, declared: Declared, before: Mapping[str, list[float]]) -> dict[str, str]:
    """Site to reason, for every site whose change of some model is none of the others' kind.

    A model is refused only where it also moved by more than its own length: what converges moves little, and by very
    different amounts. Gradients and differences have no such measure; there a change must tower over all others.
    """
    found: dict[str, str] = {}
    for role, norms in lengths.items():
        origins = {site: declared[site][role].origin for site in norms}
        if any(origin is None for origin in origins.values()):
            out = towers(norms, before.get(role, []))
        else:
            far = stands_out(norms, before.get(role, []))
            out = {site: ratio for site, ratio in far.items() if norms[site] > distance(origins[site] or {}, None)}
        for site, ratio in out.items():
            found.setdefault(site, f"its change of {role} is {ratio:.3g} times as long as the others'; the update is "
                                   "left out of the round, look at the site's images and learning rate")
    return found


def remember(lengths: Lengths, before: dict[str, list[float]]) -> None:
    """Keep the lengths of the changes that were let in."""
    for role, norms in lengths.items():
        before[role] = [*before.get(role, []), *norms.values()][-REMEMBERED:]


def shortened(models: Mapping[str, Models], declared: Declared, lengths: Lengths) -> dict[str, Models]:
    """`federation.robust: clip`: no change of what is averaged is longer than the round's median."""
    result = {site: dict(states) for site, states in models.items()}
    for role, norms in lengths.items():
        averaged = [site for site in norms if _is_averaged(declared[site][role])]
        longest = median(norms[site] for site in averaged) if averaged else 0.0
        for site in averaged:
            result[site][role] = clipped(result[site][role], declared[site][role].origin, longest)
    return result


def _is_averaged(upload: Upload) -> bool:
    return not upload.optional and upload.most == math.inf

