"""`fedsuper serve`: load, say where, answer until interrupted."""

from __future__ import annotations

import secrets
import socket
import sys
from pathlib import Path

from fedsuper.errors import FedSuperError

LOCAL = "127.0.0.1"


def serve(super_model_folder: Path, port: int = 8000, host: str | None = None, upload_mb: int = 512) -> int:
    """Serve the page until interrupted. On loopback by default; `host` opens it to others, who then need the token."""
    try:
        import uvicorn

        from fedsuper.inference.serve.app import build_app
    except ImportError as error:
        raise FedSuperError(f"serve: the package '{error.name}' is missing; pip install 'fedsuper[serve]'") from None
    from fedsuper.inference.artifact import load_super_model
    from fedsuper.inference.predictor import Predictor
    from fedsuper.inference.serve.gatekeeper import LOOPBACK, Door

    if not 0 <= port <= 65535:  # the system would take the rest of a division by 65536
        raise FedSuperError(f"--port {port}: ports go from 0 (any free one) to 65535")
    if upload_mb < 1:
        raise FedSuperError(f"--upload-mb {upload_mb}: at least 1 is needed")
    listener = _listen(host or LOCAL, port)
    bound = listener.getsockname()[1]
    alone = (host or LOCAL) in LOOPBACK
    token = None if alone else secrets.token_urlsafe(24)
    door = Door(hosts=LOOPBACK if alone else None, token=token, upload_mb=upload_mb)
    app = build_app(Predictor(load_super_model(super_model_folder)), door)
    shown = f"[{host}]" if host and ":" in host else host or LOCAL
    print(f"http://{shown}:{bound}/" + (f"?token={token}" if token else ""), flush=True)
    open_to_all = "" if alone else " Traffic is not encrypted: put a TLS proxy in front."
    print(f"Ctrl-C ends it.{open_to_all}", file=sys.stderr)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, server_header=False))
    server.run(sockets=[listener])
    return 0


def _listen(host: str, port: int) -> socket.socket:
    """A bound socket before anything slow is loaded: a taken port is told at once."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FedSuperError(f"--port {port}: cannot listen on {host} ({reason}); choose another port") from None
    return listener
