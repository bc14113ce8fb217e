"""NVFlare's controller as far as the server's exchange sees it."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import torch
from nvflare.app_common.abstract.fl_model import FLModel

from fedsuper.engines.flare.wire import unpack
from fedsuper.federation.messages import Message, SiteFailure


class FakeController:
    """Answers each task at once through `answer`; a site for which that is None stays silent."""

    def __init__(self, answer, sites=("a", "b"), gone=()) -> None:
        self.answer = answer
        self.sent: list[tuple[str, str, Message | SiteFailure]] = []
        self.timeouts: list[int] = []
        self.events: list[tuple[str, int]] = []
        self.gone = set(gone)
        self.standing = 0
        self.abort_signal = SimpleNamespace(triggered=False)
        self.engine = SimpleNamespace(get_clients=lambda: [SimpleNamespace(name=site) for site in sites],
                                      new_context=self._context)

    @contextlib.contextmanager
    def _context(self):
        props: dict[str, object] = {}
        yield SimpleNamespace(set_prop=lambda key, value, **_: props.update({key: value}), props=props)

    def fire_event(self, event: str, context) -> None:
        self.events.append((event, next(iter(context.props.values()))))

    def get_client_disconnect_time(self, site: str) -> float | None:
        return 1.0 if site in self.gone else None

    def get_num_standing_tasks(self) -> int:
        return self.standing

    def cancel_all_tasks(self) -> None:
        self.standing = 0

    def send_model(self, task: str, model: FLModel, targets: list[str], timeout: int, callback) -> None:
        assert isinstance(timeout, int)
        self.timeouts.append(timeout)
        (site,) = targets
        self.sent.append((task, site, unpack(model)))
        reply = self.answer(site)
        if reply is not None:
            reply.meta["client_name"] = site
            callback(reply)


def messages(*sites: str) -> dict[str, Message]:
    return {site: Message({"global": {"w": torch.full((2,), float(i))}}, {"round": 4}) for i, site in enumerate(sites)}
