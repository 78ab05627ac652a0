"""A hub on this machine: one model with its revisions, served as huggingface_hub asks for it."""

import hashlib
import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlparse

NAME = "org/name"
PATH = (
    rf"/api/models/{NAME}/(?P<list>revision|tree)/(?P<revision>[^/]+)"
    rf"|/{NAME}/(?P<kind>resolve)/(?P<at>[^/]+)/(?P<file>.+)"
)


class Hub:
    """revisions: the files of each commit; branches and tags: the commit that each names."""

    def __init__(self, revisions: dict[str, dict[str, bytes]], named: dict[str, str]):
        self.revisions, self.named = revisions, named
        self.asked: list[str] = []  # "GET /org/name/resolve/..."
        self.tokens: list[str | None] = []
        self.url = ""

    def commit(self, revision: str) -> str | None:
        found = self.named.get(revision, revision)
        return found if found in self.revisions else None

    def files(self) -> list[str]:
        """The contents that were fetched, in order."""
        return [one.split("/resolve/")[1].split("/", 1)[1] for one in self.asked if one.startswith(f"GET /{NAME}/res")]


def tag(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


@contextmanager
def served(hub: Hub) -> Generator[Hub]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, body: bool) -> None:
            path = urlparse(self.path).path
            hub.asked.append(f"{self.command} {path}")
            if (asked := re.fullmatch(PATH, path)) is None:
                self.refuse("RepoNotFound")
                return
            hub.tokens.append(self.headers.get("authorization"))
            kind, revision, name = asked["kind"] or asked["list"], asked["revision"] or asked["at"], asked["file"]
            commit = hub.commit(revision)
            files = hub.revisions.get(commit or "", {})
            if commit is None:
                self.refuse("RevisionNotFound")
            elif kind == "revision":
                names = [{"rfilename": name} for name in files]
                self.say({"id": NAME, "modelId": NAME, "sha": commit, "siblings": names, "tags": []}, body)
            elif kind == "tree":
                self.say([{"type": "file", "path": p, "size": len(c), "oid": tag(c)} for p, c in files.items()], body)
            elif name not in files:
                self.refuse("EntryNotFound")
            else:
                self.give(files[name], {"X-Repo-Commit": commit, "ETag": f'"{tag(files[name])}"'}, body)

        def say(self, content: object, body: bool) -> None:
            self.give(json.dumps(content).encode(), {"Content-Type": "application/json"}, body)

        def give(self, content: bytes, headers: dict[str, str], body: bool) -> None:
            self.send_response(200)
            for key, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(key, value)
            self.end_headers()
            if body:
                self.wfile.write(content)

        def refuse(self, code: str) -> None:
            self.send_response(404)
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
