"""Who may ask the server: its own pages only, under its own name, and not too much at once."""

from __future__ import annotations

import ipaddress
import socket
import time
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clearhead.view.page import policy
from clearhead.view.scene import Scene

RATE, BURST = 50.0, 200.0  # questions that a page may ask per second, and at once
HEADERS = {
    "Content-Security-Policy": f"{policy(connect=True)}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass
class Client:
    """One open page: its own scene, and how many questions it may still ask."""

    scene: Scene
    left: float = BURST
    since: float = field(default_factory=time.monotonic)

    def may_ask(self) -> bool:
        """Counts one question."""
        now = time.monotonic()
        self.left, self.since = min(BURST, self.left + RATE * (now - self.since)), now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Guard:
    """Before the application: refuses requests under another name or from another site, whatever they ask for; and
    every answer goes out with HEADERS.
    """

    def __init__(self, app: ASGIApp, host: str, port: int) -> None:
        self.app, self.host, self.port = app, host, port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refused = None if scope["type"] != "http" else self._refused(Headers(scope=scope))
        await (self.app if refused is None else refused)(scope, receive, headed)

    def _refused(self, headers: Headers) -> Response | None:
        """A browser may be led here under a name that somebody else has pointed at this machine, or by their page."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if not ours(host, self.host, self.port):
            return sentence(421, f"this server is not {host[:80]!r}; open the address that clearhead serve has printed")
        if origin is not None and origin != f"http://{host}":
            return sentence(403, "another site may not ask this server")
        return None


def ours(given: str, host: str, port: int) -> bool:
    """Whether the Host of a request is the name under which this server may be asked.

    Numbers are: unlike a name, they cannot be pointed elsewhere.
    """
    name, _, asked = given.rpartition(":")
    name = name.strip("[]").lower()
    known = {host.lower(), "localhost"} | (set() if loopback(host) else {socket.gethostname().lower()})
    return asked == str(port) and (name in known or (loopback(name) if loopback(host) else is_number(name)))


def is_number(host: str) -> bool:
    """Whether it is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    return ipaddress.ip_address(host).is_loopback if is_number(host) else host == "localhost"


def sentence(status: int, text: str) -> Response:
    """A refusal, in one sentence."""
    return JSONResponse({"error": text}, status_code=status)
