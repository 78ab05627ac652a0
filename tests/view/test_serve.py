"""The server: who may ask, what it answers, when it stops, and that nobody sees what somebody else does."""

import asyncio
import json
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

import clearhead
from clearhead.view import guard, serve
from clearhead.view.guard import Client, ours
from clearhead.view.page import module
from clearhead.view.reading import Stopped
from clearhead.view.scene import Scene
from clearhead.view.serve import Server, listen
from view.scenes import recording, scene_of, writer

PORT = 8765
ADDRESS = f"http://127.0.0.1:{PORT}"
Answer = httpx.Response


class Page:
    """What a browser does: opens the page, and asks with its secret."""

    def __init__(self, client: httpx.AsyncClient, secret: str) -> None:
        self.client, self.secret = client, secret

    async def ask(self, op: str, **args: Any) -> Answer:
        return await self.client.post(f"/api/{op}", headers={"X-Clearhead": self.secret}, content=json.dumps(args))

    async def head(self, op: str, **args: Any) -> dict[str, Any]:
        return unpacked((await self.ask(op, **args)).content)[0]


def unpacked(content: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = struct.unpack("<I", content[:4])
    return json.loads(content[4 : 4 + length]), content[4 + length :]


def browse(server: Server, visit: Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def run() -> None:
        transport = httpx.ASGITransport(app=server.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=ADDRESS, **options) as client:
            await visit(client)

    asyncio.run(run())


async def opened(client: httpx.AsyncClient, server: Server) -> Page:
    page = await client.get("/", params={"token": server.token})
    assert page.status_code == 200
    found = re.search('data-token="([^"]+)"', page.text)
    assert found
    return Page(client, found[1])


def server_of(scene: Scene | None = None, host: str = "127.0.0.1") -> Server:
    return Server(scene_of(writer(), "abc") if scene is None else scene, host, PORT)


def test_a_page_asks_and_is_answered() -> None:
    server = server_of()

    async def visit(client: httpx.AsyncClient) -> None:
        page = await opened(client, server)
        assert await page.head("meta") == json.loads(json.dumps(server.scene.ask("meta").head))
        row = await page.ask("row", stack="decoder", layer=1, head=0, query=2)
        right = server.scene.ask("row", {"stack": "decoder", "layer": 1, "head": 0, "query": 2})
        assert row.content == right.packed()
        assert row.headers["content-type"] == "application/octet-stream"
        script = await client.get("/view.js")
        assert script.text == module()
        assert script.headers["content-type"].startswith("text/javascript")
        assert "startPage" in (await client.get("/start.js")).text

    browse(server, visit)


def test_every_answer_carries_the_policy() -> None:
    server = server_of()

    async def visit(client: httpx.AsyncClient) -> None:
        page = await opened(client, server)
        token = {"token": server.token}
        found = [await client.get("/", params=token), await client.get("/view.js"), await client.get("/nowhere")]
        found += [await page.ask("meta"), await page.ask("nothing"), await client.get("/", params={"token": "no"})]
        for answer in found:
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'; script-src 'self';" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["cache-control"] == "no-store"
            assert "access-control-allow-origin" not in answer.headers
            assert "set-cookie" not in answer.headers
            assert "server" not in answer.headers

    browse(server, visit)


def test_who_lacks_the_token_gets_nothing() -> None:
    server = server_of()

    async def visit(client: httpx.AsyncClient) -> None:
        for params in ({}, {"token": ""}, {"token": server.token[:-1]}, {"token": server.token + "x"}, {"token": "é"}):
            answer = await client.get("/", params=params)
            assert answer.status_code == 403
            assert "no valid token" in answer.json()["error"]
        for headers in ({}, {"X-Clearhead": ""}, {"X-Clearhead": server.token}, {"X-Clearhead": "guessed"}):
            answer = await client.post("/api/meta", headers=headers)
            assert answer.status_code == 403
            assert "session has ended" in answer.json()["error"]
        assert not server.clients

    browse(server, visit)


@pytest.mark.parametrize("host", ["evil.example:8765", "127.0.0.1", "127.0.0.1:80", "localhost.evil:8765", "", "::1"])
def test_a_host_that_somebody_else_has_pointed_here_is_refused(host: str) -> None:
    server = server_of()

    async def visit(client: httpx.AsyncClient) -> None:
        for path in ("/", "/view.js", "/nowhere"):
            answer = await client.get(path, params={"token": server.token}, headers={"Host": host})
            assert answer.status_code == 421
            assert "this server is not" in answer.json()["error"]
        page = await opened(client, server)
        answer = await client.post("/api/meta", headers={"Host": host, "X-Clearhead": page.secret})
        assert answer.status_code == 421

    browse(server, visit)


def test_another_site_may_not_ask() -> None:
    server = server_of()

    async def visit(client: httpx.AsyncClient) -> None:
        page = await opened(client, server)
        for origin in ("https://evil.example", "http://127.0.0.1:9999", "null"):
            headers = {"Origin": origin, "X-Clearhead": page.secret}
            assert (await client.post("/api/meta", headers=headers)).status_code == 403
        headers = {"Origin": ADDRESS, "X-Clearhead": page.secret}
        assert (await client.post("/api/meta", headers=headers)).status_code == 200
        assert (await client.options("/api/meta", headers=headers)).status_code == 405  # no leave for other sites

    browse(server, visit)


def test_which_names_are_ours() -> None:
    own = ("127.0.0.1", 80)
    for given in ("127.0.0.1:80", "localhost:80", "LOCALHOST:80", "[::1]:80", "127.0.0.2:80"):
        assert ours(given, *own), given
    for given in ("192.168.1.4:80", "here.example:80", "localhost:81"):
        assert not ours(given, *own), given
    assert ours("192.168.1.4:80", "0.0.0.0", 80)
    assert ours("here.example:80", "here.example", 80)
    assert not ours("evil.example:80", "0.0.0.0", 80)


def test_no_path_leads_to_a_file() -> None:
    server = server_of()

    async def visit(client: httpx.AsyncClient) -> None:
        for path in (
            "/static/base.css",
            "/../pyproject.toml",
            "/api/../../etc/passwd",
            "/%2e%2e/etc/passwd",
            "/view.py",
        ):
            assert (await client.get(path)).status_code in (404, 405)

    browse(server, visit)


BAD = {
    "no JSON": (b"{", 400, "the question is no JSON"),
    "deep": (b"[" * 100_000, 400, "the question is no JSON"),
    "a list": (b"[1]", 400, "the arguments are a list; give an object"),
    "too long": (b'{"x": "' + b"a" * 2**17 + b'"}', 413, "the question is longer than 131,072 bytes"),
    "an unknown head": (
        *(b'{"stack": "decoder", "layer": 0, "head": 99, "query": 0}', 400),
        "head is 99, but there are 4 heads in layer 0, 0 to 3",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_question_is_one_sentence(name: str) -> None:
    content, status, words = BAD[name]
    server = server_of()

    async def visit(client: httpx.AsyncClient) -> None:
        page = await opened(client, server)
        answer = await client.post("/api/row", headers={"X-Clearhead": page.secret}, content=content)
        assert answer.status_code == status
        assert words in answer.json()["error"]
        assert (await page.ask("film")).status_code == 404
        assert (await page.ask("meta")).status_code == 200

    browse(server, visit)


def test_a_mistake_of_ours_is_logged_and_tells_nothing(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    server = server_of()

    def broken(*of: Any) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(Scene, "ask", broken)

    async def visit(client: httpx.AsyncClient) -> None:
        answer = await (await opened(client, server)).ask("meta")
        assert answer.status_code == 500
        assert "secret" not in answer.text

    browse(server, visit)
    assert "a secret" in caplog.text


def test_two_people_see_their_own_text() -> None:
    server = server_of()

    async def visit(client: httpx.AsyncClient) -> None:
        one, two = await opened(client, server), await opened(client, server)
        found = await asyncio.gather(one.head("look", text="first"), two.head("look", text="second one"))
        assert ["".join(head["tokens"]["decoder"]) for head in found] == ["first", "second one"]
        for page, text in ((one, "first"), (two, "second one")):
            assert "".join((await page.head("meta"))["tokens"]["decoder"]) == text
            assert (await page.head("overview", stack="decoder"))["rows"] == len(text)
        assert "".join((await (await opened(client, server)).head("meta"))["tokens"]["decoder"]) == "abc"

    browse(server, visit)


def test_ablations_at_the_same_time_do_not_mix() -> None:
    server = server_of()
    heads = [[{"stack": "decoder", "layer": 0, "head": h, "how": "zero"}] for h in (0, 3)]
    right = [server.scene.copy().ask("ablate", {"heads": some, "query": 1}).head["after"] for some in heads]

    async def visit(client: httpx.AsyncClient) -> None:
        pages = [await opened(client, server) for _ in heads]
        for _ in range(3):
            found = await asyncio.gather(
                *(p.head("ablate", heads=h, query=1) for p, h in zip(pages, heads, strict=True))
            )
            assert [head["after"] for head in found] == right

    browse(server, visit)


def test_only_so_many_pages_and_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "PAGES", 2)
    monkeypatch.setattr(guard, "BURST", 3.0)
    monkeypatch.setattr(guard, "RATE", 0.0)
    server = server_of()

    async def visit(client: httpx.AsyncClient) -> None:
        first = await opened(client, server)
        second = await opened(client, server)
        assert (await first.ask("meta")).status_code == 200  # so that the second was asked longer ago
        third = await opened(client, server)
        assert [(await page.ask("meta")).status_code for page in (first, second, third)] == [200, 403, 200]
        server.clients[first.secret].left = 1.0
        assert [(await first.ask("meta")).status_code for _ in range(2)] == [200, 429]
        assert "too many questions" in (await first.ask("meta")).json()["error"]

    browse(server, visit)


def test_pages_that_hold_too_much_end_before_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    server = server_of()

    async def visit(client: httpx.AsyncClient) -> None:
        first, second, third = [await opened(client, server) for _ in range(3)]
        for page in (second, first):
            assert (await page.ask("look", text="a text of its own")).status_code == 200
        monkeypatch.setattr(serve, "MEMORY", server.clients[first.secret].scene.shown.reading.bytes + 1)
        assert [(await page.ask("meta")).status_code for page in (first, third, second)] == [200, 200, 403]

    browse(server, visit)


def test_leave_to_ask_comes_back() -> None:
    client = Client(recording(3), left=1.0)
    assert client.may_ask()
    assert not client.may_ask()
    client.since -= 1.0
    assert client.may_ask()


def test_who_has_gone_away_is_no_longer_computed_for() -> None:
    """The ASGI messages of a browser that closes its connection while the answer is on its way."""
    server, begun, ended = server_of(), threading.Event(), threading.Event()

    class Endless(Scene):
        def ask(self, op: str, args: Any = None, going: Any = None) -> Any:
            begun.set()
            try:
                while True:
                    going()
                    time.sleep(0.01)
            except Stopped:
                ended.set()
                raise

    secret = "s"
    server.clients[secret] = Client(Endless(server.scene.shown.reading))
    headers = [(b"host", f"127.0.0.1:{PORT}".encode()), (b"x-clearhead", secret.encode())]
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http"}
    scope |= {"path": "/api/meta", "raw_path": b"/api/meta", "query_string": b"", "root_path": "", "headers": headers}
    scope |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", PORT)}

    async def run() -> None:
        waiting: list[dict[str, Any]] = [{"type": "http.request", "body": b"{}", "more_body": False}]

        async def receive() -> dict[str, Any]:
            if waiting:
                return waiting.pop()
            while not begun.is_set():
                await asyncio.sleep(0.01)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None: ...

        await asyncio.wait_for(server.app(scope, receive, send), 30)

    asyncio.run(run())
    assert ended.is_set()


def test_a_pooled_picture_stops_too() -> None:
    scene, calls = recording(3000, layers=1), []

    def going() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise Stopped

    with pytest.raises(Stopped):
        scene.ask("image", {"stack": "decoder", "layer": 0, "head": 0, "pooled": True}, going)
    assert len(calls) == 2


def test_a_busy_port_and_a_host_elsewhere_are_one_sentence() -> None:
    first = listen("127.0.0.1", 0)
    port = first.getsockname()[1]
    with pytest.raises(
        ValueError, match=rf"cannot listen at 127\.0\.0\.1:{port} \(.*\); give another --port or --host"
    ):
        listen("127.0.0.1", port)
    first.close()
    with pytest.raises(ValueError, match=r"cannot listen at 192\.0\.2\.1:0"):
        listen("192.0.2.1", 0)


def test_the_address_of_ipv6_is_in_brackets() -> None:
    assert server_of(recording(3), "::1").address.startswith(f"http://[::1]:{PORT}/?token=")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("serve") / "model"
    clearhead.save(writer(), place)
    return place


def started(folder: Path, *words: str) -> tuple["subprocess.Popen[str]", str]:
    """`clearhead serve` in a process of its own, and the address that it prints."""
    command = [sys.executable, "-m", "clearhead", "serve", str(folder), "abc", "--no-open", "--port", "0", *words]
    pipe = subprocess.PIPE
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert process.stdout.readline() == "Ctrl+C ends it.\n"
    return process, address


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_a_process_of_its_own_serves_and_ends_when_it_is_asked_to(folder: Path, by: signal.Signals) -> None:
    process, address = started(folder)
    try:
        found = re.search('data-token="([^"]+)"', httpx.get(address).text)
        assert found
        with httpx.Client(base_url=address.split("/?")[0], headers={"X-Clearhead": found[1]}) as client:
            head = unpacked(client.post("/api/meta").content)[0]
            assert head["tokens"]["decoder"] == list("abc")
            assert head["title"] == "abc"
            process.send_signal(by)  # with the connection still open
            out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, "")
        assert err == ""
    finally:
        process.kill()


def test_a_host_elsewhere_brings_a_warning_and_still_asks_for_the_token(folder: Path) -> None:
    process, address = started(folder, "--host", "0.0.0.0")
    try:
        port = re.search(r":(\d+)/", address)
        assert port
        assert httpx.get(f"http://127.0.0.1:{port[1]}/").status_code == 403
        assert httpx.get(address.replace("0.0.0.0", "127.0.0.1")).status_code == 200
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        assert "warning: 0.0.0.0 can be reached from other machines" in err
    finally:
        process.kill()
