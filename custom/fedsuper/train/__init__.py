"""The only epoch loop, the losses it minimizes, seeding, devices and checkpoints.

This room bears the name of the public function `fedsuper.train(study, data, out)`. Python puts a room in the place of
a function of that name once the room is imported, so the room can be called like the function.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _CallableRoom(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return importlib.import_module("fedsuper.api").train(*arguments, **options)


sys.modules[__name__].__class__ = _CallableRoom
