"""One model behind a page: the scene over HTTP, for one or several people at a time.

Whoever knows the token in the address may open the page. Each page is then given a secret of its own, which its
questions carry in a header and which stands for its own scene; there are no cookies, so no other site can ask in
somebody's name. No path leads to a file.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import signal
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from clearhead.view.guard import RATE, Client, Guard, sentence
from clearhead.view.page import BEGIN, document, module
from clearhead.view.reading import Stopped
from clearhead.view.scene import QUESTIONS, Scene

PAGES = 16  # scenes that are kept; the one not asked for longest goes first
MEMORY = 2**31  # bytes that their texts may hold together; again the one not asked for longest goes first
BODY = 2**17  # bytes of a question
AT_ONCE = 4  # questions that are worked on at a time
SCRIPT = '<script type="module" src="/start.js"></script>\n'
START = f'import {{ startPage }} from "/view.js";\n{BEGIN}'
logger = logging.getLogger(__name__)


class Server:
    """The application, its token and its pages."""

    def __init__(self, scene: Scene, host: str, port: int) -> None:
        """scene: what every page begins with; each goes its own way."""
        self.scene, self.host, self.port = scene, host, port
        self.token = secrets.token_urlsafe(24)
        self.clients: OrderedDict[str, Client] = OrderedDict()
        self.closing = threading.Event()
        self.workers = ThreadPoolExecutor(AT_ONCE)
        routes = [
            Route("/", self._page, methods=["GET"]),
            Route("/view.js", _module, methods=["GET"]),
            Route("/start.js", _start, methods=["GET"]),
            Route("/api/{op}", self._api, methods=["POST"]),
        ]
        self.app = Starlette(routes=routes, middleware=[Middleware(Guard, host=host, port=port)])

    @property
    def address(self) -> str:
        """What to open in a browser."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/?token={self.token}"

    def run(self, listening: socket.socket) -> None:
        """Answer until SIGINT or SIGTERM; then computations stop, and it returns."""
        config = uvicorn.Config(
            self.app,
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=64,
            timeout_graceful_shutdown=3,
            lifespan="off",
            ws="none",
        )
        before = signal.signal(signal.SIGTERM, _nothing)  # uvicorn raises a signal again after it has closed
        try:
            _Ending(config, self.closing).run(sockets=[listening])
        except KeyboardInterrupt:
            pass
        finally:
            self.workers.shutdown(cancel_futures=True)
            signal.signal(signal.SIGTERM, before)

    async def _page(self, request: Request) -> Response:
        given = request.query_params.get("token", "")
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return sentence(403, "this address has no valid token; open the address that clearhead serve has printed")
        secret = secrets.token_urlsafe(24)
        self.clients[secret] = Client(self.scene.copy())
        self._make_room()
        return Response(document(self.scene.title, "http", SCRIPT, token=secret), media_type="text/html")

    async def _api(self, request: Request) -> Response:
        secret = request.headers.get("x-clearhead", "")
        client = self.clients.get(secret)
        if client is None:
            return sentence(403, "this page's session has ended; reload the address that clearhead serve has printed")
        self.clients.move_to_end(secret)
        if not client.may_ask():
            return sentence(429, f"too many questions; a page may ask {RATE:g} a second")
        body = await _body(request)
        if body is None:
            return sentence(413, f"the question is longer than {BODY:,} bytes")
        try:
            args = json.loads(body or b"{}")
        except (ValueError, RecursionError):
            return sentence(400, "the question is no JSON")
        return await self._answer(request, client.scene, request.path_params["op"], args)

    async def _answer(self, request: Request, scene: Scene, op: str, args: Any) -> Response:
        """The scene's answer, from a thread, which stops when the page has gone away."""
        gone = threading.Event()

        def going() -> None:
            if gone.is_set() or self.closing.is_set():
                raise Stopped

        def work() -> Response:
            going()
            return Response(scene.ask(op, args, going).packed(), media_type="application/octet-stream")

        watching = asyncio.create_task(_watch(request, gone))
        try:
            return await asyncio.get_running_loop().run_in_executor(self.workers, _plain, work, op)
        finally:
            watching.cancel()
            self._make_room()

    def _make_room(self) -> None:
        """Ends the sessions that were not asked for longest, as far as there are too many or they hold too much."""
        while len(self.clients) > PAGES:
            self.clients.popitem(last=False)
        readings = {secret: client.scene.shown.reading for secret, client in self.clients.items()}
        own = {secret: it.bytes for secret, it in readings.items() if it is not self.scene.shown.reading}
        while len(own) > 1 and sum(own.values()) > MEMORY:
            oldest = next(iter(own))
            del own[oldest], self.clients[oldest]


class _Ending(uvicorn.Server):
    """Says so when it is asked to end, so that nobody computes on."""

    def __init__(self, config: uvicorn.Config, closing: threading.Event) -> None:
        super().__init__(config)
        self.closing = closing

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.closing.set()
        super().handle_exit(sig, frame)


def _plain(work: Callable[[], Response], op: str) -> Response:
    """What work gives, or in one sentence why it gives nothing."""
    try:
        return work()
    except Stopped:
        return sentence(503, "nobody waits for this answer any more")
    except ValueError as error:
        return sentence(400 if op in QUESTIONS else 404, str(error))
    except Exception:
        logger.exception("the question %r could not be answered", op)
        return sentence(500, "the server could not answer this; its terminal says why")


async def _module(request: Request) -> Response:
    return Response(module(), media_type="text/javascript")


async def _start(request: Request) -> Response:
    return Response(START, media_type="text/javascript")


async def _watch(request: Request, gone: threading.Event) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    gone.set()


async def _body(request: Request) -> bytes | None:
    """None if it is too long."""
    found = b""
    async for chunk in request.stream():
        found += chunk
        if len(found) > BODY:
            return None
    return found


def _nothing(*_: Any) -> None: ...


def listen(host: str, port: int) -> socket.socket:
    """A socket that nobody else has; port 0: any that is free. Raises ValueError for a busy port and for a host that is
    not here.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with ExitStack() as opened:
            found = opened.enter_context(socket.socket(family, socket.SOCK_STREAM))
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind((host, port))
            found.listen(64)
            opened.pop_all()  # from here on it stays open
            return found
    except OSError as error:
        raise ValueError(f"cannot listen at {host}:{port} ({error.strerror}); give another --port or --host") from error
