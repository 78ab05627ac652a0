"""An explanation of one weight as Markdown with formulas, and as a page of its own."""

from __future__ import annotations

from html import escape

from clearhead.lens.explanation import Explanation, Step, written

STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, td { font-family: ui-monospace, monospace; font-size: .9rem; }
td { padding: .1rem .8rem .1rem 0; vertical-align: top; overflow-wrap: anywhere; }
.code { opacity: .7; } .end { font-size: 1.3rem; font-weight: 600; }
"""


def headline(e: Explanation) -> str:
    """What is explained, in one sentence."""
    return (
        f"{e.address}, head {e.head}: how far token {e.query} ({e.words[0]!r}) looks at token {e.key} ({e.words[1]!r})"
    )


def ending(e: Explanation) -> str:
    """What it comes to."""
    return f"weight = {e.shown:.{e.decimals}f} (the model: {e.value:.9g})"


def to_markdown(e: Explanation) -> str:
    """Markdown with LaTeX between dollar signs; every number stands there."""
    parts = [f"# {_plain(headline(e))}"]
    for i, step in enumerate(e.steps, 1):
        parts += [f"## {i}. {step.title}", f"$${step.latex}$$", f"`{step.formula}` ({step.code})"]
        parts.append("| | |\n| --- | --- |\n" + "\n".join(f"| {name} | {row} |" for name, row in _rows(e, step)))
        parts += [step.note] if step.note else []
    return "\n\n".join([*parts, f"**{ending(e)}**"]) + "\n"


def to_html(e: Explanation) -> str:
    """One page that needs nothing else. Tokens stand in it as text, never as markup."""
    parts = [f"<h1>{escape(headline(e))}</h1>"]
    for i, step in enumerate(e.steps, 1):
        rows = "".join(f"<tr><td>{escape(name)}</td><td>{escape(row)}</td></tr>" for name, row in _rows(e, step))
        parts.append(
            f"<h2>{i}. {escape(step.title)}</h2><p><code>{escape(step.formula)}</code> "
            f"<code class=code>{escape(step.code)}</code></p><table>{rows}</table><p>{escape(step.note)}</p>"
        )
    body = "\n".join([*parts, f"<p class=end>{escape(ending(e))}</p>"])
    head = f"<meta charset=utf-8><title>{escape(headline(e))}</title><style>{STYLE}</style>"
    return f"<!doctype html>\n<html lang=en><head>{head}</head><body>{body}</body></html>\n"


def _rows(e: Explanation, step: Step) -> list[tuple[str, str]]:
    return [(name, written(number, e.decimals, most=10**9)) for name, number in step.numbers.items()]


def _plain(text: str) -> str:
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|$" else c for c in text)
