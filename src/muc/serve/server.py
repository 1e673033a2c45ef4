"""From runs to a listening socket."""

import socket
from collections.abc import Callable
from ipaddress import ip_address

import uvicorn
from starlette.types import ASGIApp

from muc import config
from muc.errors import UserError
from muc.run_folder import RunFolder
from muc.serve.app import build_app
from muc.serve.connections import TimedProtocol
from muc.serve.keys import KeyFile
from muc.serve.limits import Limits
from muc.serve.pair import open_pair

STOP_SECONDS = 5  # what is under way may end after Ctrl-C
IDLE_SECONDS = 12  # longer than the 5 of httpx and the like: they then never send on a connection just closed here


def serve(
    before: RunFolder,
    after: RunFolder | None,
    host: str,
    port: int,
    runtime: config.Runtime,
    say: Callable[[str], None],
    limits: Limits | None = None,
) -> None:
    """Until Ctrl-C. Until something is unlearned there is one model, with which data owners draw their splits. What
    cannot work is refused before the models are loaded."""
    after = after or before
    keys = KeyFile(before.path)  # so that a key opens the model before, and later, elsewhere, the one after too
    after.result(), before.result()
    if not any(key.revoked is None for key in keys.all()):
        raise UserError(
            f"{before} has no keys, and nobody is served without one; "
            f"add one with: muc serve keys add {before} --name NAME"
        )
    with bind(host, port) as listener:
        pair = open_pair(before, after, runtime)
        made_from = [pair.sha256["after"], *(step["model_sha256"] for step in after.config()["ancestry"])]
        if pair.sha256["before"] not in made_from:
            say(f"note: {after} was not made from {before}; an audit compares a model with its own predecessor")
        address, port = listener.getsockname()[:2]
        if not is_loopback(address):
            say(f"warning: {address} can be reached by others, and keys and images would travel readable by anyone in")
            say("between; put a proxy with TLS in front, and let this listen on 127.0.0.1 only")
        shown = f"[{address}]" if ":" in address else address
        what = f"{before} and {after}" if after is not before else f"{before}, as before and after,"
        say(f"serving {what} on http://{shown}:{port} (Ctrl-C stops)")
        make_server(build_app(pair, keys, limits)).run(sockets=[listener])


def make_server(app: ASGIApp) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=TimedProtocol,
            ws="none",
            lifespan="on",
            log_level="error",  # tracebacks of our own mistakes, for the operator
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
    )


def bind(host: str, port: int) -> socket.socket:
    """Taken, but not yet listening: who connects before the models are there is refused instead of left waiting."""
    if not 0 <= port <= 65535:
        raise UserError(f"--port is {port}; give a number from 0 (any free port) to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError):
        raise UserError(f"--host {host} is no address of this machine; give 127.0.0.1, 0.0.0.0 or a name") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise UserError(
            f"cannot listen on {host}, port {port} ({error.strerror}); give another --host or --port"
        ) from None
    return listener


def is_loopback(address: str) -> bool:
    return ip_address(address.partition("%")[0]).is_loopback
