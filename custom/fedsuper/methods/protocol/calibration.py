"""What a method may ask of the finished super model, at every site, before its last settings are fixed."""

from __future__ import annotations

from typing import Any, Protocol


class Trial(Protocol):
    """The finished super model on a site's own validation images; answers are sums over images, in plain JSON."""

    def kinds(self) -> list[str]:
        """The selectors that can be measured now: a closed form has no probabilities before its shrinkage is chosen."""
        ...

    def gamma_curve(self, kind: str) -> dict[str, Any]:
        """With that selector, for every gamma of the grid: summed Dice, and how many images the global model gets."""
        ...

    def utility_row(self, kind: str) -> dict[str, Any]:
        """Summed Dice of every expert, that selector's cross-entropy at every temperature, and the number of images."""
        ...
