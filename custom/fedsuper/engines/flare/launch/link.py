"""An admin's session that outlives a lost connection: opened again and again until the server is back."""

from __future__ import annotations

import contextlib
import io
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fedsuper.errors import FedSuperError

if TYPE_CHECKING:
    from nvflare.fuel.flare_api.flare_api import Session

PATIENCE = 600.0  # seconds that a server may be out of reach
RETRY = 2.0
Answer = TypeVar("Answer")


def checked_kit(kit: Path | None) -> Path:
    """The folder of an admin's start-up kit, if it is one."""
    if kit is None:
        raise FedSuperError("--engine prod: needs --kit, the folder of the admin's start-up kit")
    kit = Path(kit).absolute()
    if not (kit / "startup" / "fed_admin.json").is_file():
        raise FedSuperError(f"{kit}: is not an admin's start-up kit (no startup/fed_admin.json); give the folder that "
                            "provisioning made for the admin who submits")
    return kit


def open_session(kit: Path, timeout: float = 20.0) -> Session:
    """Log in with the start-up kit of an admin: the folder, named after the admin, that holds `startup/`."""
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    kit = checked_kit(kit)
    # Without any handler Python prints NVFlare's connection warnings; what matters of them is in the error below.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it announces itself
            return new_secure_session(kit.name, str(kit), timeout=timeout)
    except Exception as error:  # the API raises a dozen unrelated types
        raise FedSuperError(f"{kit}: cannot log in to the server ({line_of(error)}); is it running, and is this kit "
                            "one of its own?") from None


class Link:
    """The way to a server with an admin's kit; `note` tells of a server that is gone, and that it is back."""

    def __init__(self, kit: Path, note: Callable[[str], None]) -> None:
        self.kit = kit
        self.note = note
        self._session: Session | None = open_session(kit)

    def ask(self, call: Callable[[Session], Answer]) -> Answer:
        """What `call` gets from the server; a lost connection is waited out for `PATIENCE` seconds."""
        from nvflare.fuel.flare_api.api_spec import AuthenticationError, SessionClosed

        deadline: float | None = None
        while True:
            try:
                if self._session is None:
                    self._session = open_session(self.kit, timeout=5.0)
                answer = call(self._session)
                if deadline is not None:
                    self.note("the server is back")
                return answer
            except (ConnectionError, SessionClosed, AuthenticationError, TimeoutError, FedSuperError) as problem:
                self.close()
                if deadline is None:
                    deadline = time.monotonic() + PATIENCE
                    self.note(f"the server cannot be reached ({line_of(problem)}); waiting for it")
                if time.monotonic() > deadline:
                    raise FedSuperError(f"the server could not be reached for {PATIENCE:.0f} s ({line_of(problem)}); "
                                        "once it is back, go on with --resume") from None
                time.sleep(RETRY)

    def close(self) -> None:
        """End the session, if there is one."""
        if self._session is not None:
            with contextlib.suppress(Exception):  # closing what is already broken
                self._session.close()
            self._session = None


def line_of(error: Exception) -> str:
    """An exception in one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__
