"""The sections of static/ as one ES module, and the pages that it is put into.

A notebook loads a module as text, where imports between files cannot work; so they are joined here, in this order,
and share their declarations. STYLE comes first: the style sheets, which a screen puts into its own shadow root.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from html import escape
from importlib.resources import files

from clearhead.view import bare

SHARED = ("colour.js", "tokens.js", "dom.js", "theme.js")
SCREEN = (
    *("base.css", "screen.css"),
    *SHARED,
    *(
        "brief.js",
        "source.js",
        "embedded.js",
        "state.js",
        "loading.js",
        "saying.js",
        "sweep.js",
        "chosen.js",
        "pens.js",
        "cells.js",
        "axes.js",
    ),
    *("overview.js", "headmarks.js", "matrix.js", "field.js", "row.js", "pair.js", "text.js", "logitlens.js"),
    *("ablate.js", "generate.js", "export.js", "toolbar.js", "keys.js", "screen.js", "index.js"),
)
AGAINST = (
    *("base.css", "alone.css", "against.css"),
    *SHARED,
    *("brief.js", "pens.js", "axes.js", "given.js", "headgrid.js", "plate.js"),
    *("against-data.js", "against-row.js", "against-parts.js", "against.js"),
)
FILM = (
    *("base.css", "alone.css", "film.css"),
    *SHARED,
    *("brief.js", "pens.js", "axes.js", "given.js", "headgrid.js", "plate.js"),
    *("film-data.js", "film-curve.js", "film-parts.js", "film.js"),
)
BEGIN = 'startPage(document.querySelector("#clearhead"));\n'  # what a page of its own does with the module
MARGINS = "body { margin: 0 }"


@cache
def module(names: tuple[str, ...] = SCREEN) -> str:
    """One ES module of the sections with these names."""
    style = "\n".join(_read(name) for name in names if name.endswith(".css"))
    code = [_read(name) for name in names if name.endswith(".js")]
    return "\n".join([f"const STYLE = {inlined(style)};", *code])


def _read(name: str) -> str:
    text = (files("clearhead.view") / "static" / name).read_text(encoding="utf-8")
    return bare.style(text) if name.endswith(".css") else bare.script(text)


def inlined(value: object) -> str:
    """JSON that may stand in a script: no `<`, which could end it or hide its end, and no line ends of Unicode."""
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def policy(script: str | None = None, connect: bool = False) -> str:
    """The content security policy of a page. script: the one that may run, which stands in the page; None: those of
    the page's own server. connect: whether it may ask that server.
    """
    scripts = "'self'" if script is None else _hash(script)
    asks = "'self'" if connect else "'none'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src {_hash(MARGINS)}; img-src data: blob:; "
        f"connect-src {asks}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def document(title: str, source: str, body: str, head: str = "", **data: str) -> str:
    """A page of its own. source: where its answers come from, "http" or "embedded"; data: further attributes."""
    attributes = "".join(f' data-{name}="{escape(value)}"' for name, value in data.items())
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{head}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{MARGINS}</style>\n</head>\n<body>\n"
        f'<div id="clearhead" data-source="{source}" data-title="{escape(title)}"{attributes}>'
        "This page is drawn by a script. If it stays like this, the script did not run.</div>\n"
        f"{body}</body>\n</html>\n"
    )


def alone(title: str, source: str, sections: tuple[str, ...], begin: str, given: object) -> str:
    """A page that is one file: its module, and as JSON under the name of its source everything that it is given."""
    script = f"{module(sections)}\n{begin}"
    data = f'<script type="application/json" id="{source}">{inlined(given)}</script>'
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy(script))}">\n'
        '<meta name="color-scheme" content="light dark">\n'
    )
    return document(title, source, f'{data}\n<script type="module">{script}</script>\n', head)
