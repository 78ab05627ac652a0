"""Messages to the text that a chat model was trained on, by the template (Jinja) that its tokenizer came with."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment


def render(template: str, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any]) -> str:
    """The text of a conversation, as Hugging Face's `apply_chat_template(tokenize=False)` gives it.

    A template is a program from a stranger. It runs in Jinja's sandbox and is handed plain data alone, so it can reach
    nothing else; but nothing limits the time and memory that it takes. Messages lose the keys that hold None.
    Raises ValueError for no messages, for what is not plain data (as in JSON), and where the template refuses or fails.
    """
    if not messages:
        raise ValueError("messages is empty: a conversation has at least one message")
    kept = [{key: value for key, value in message.items() if value is not None} for message in messages]
    try:
        plain = json.loads(json.dumps({**variables, "messages": kept}))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"messages and variables must be plain data, as in JSON: {error}") from error
    try:
        return _compiled(template).render(plain)
    except TemplateError as error:
        raise ValueError(f"the chat template refuses: {error}") from error
    except Exception as error:  # a template can raise whatever an expression can
        raise ValueError(f"the chat template fails: {error}") from error


class _Generation(Extension):
    """`{% generation %}` marks what the assistant says, for training; here it changes nothing."""

    tags = {"generation"}  # noqa: RUF012 (Jinja's own attribute)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


@lru_cache(maxsize=8)
def _compiled(template: str) -> Template:
    inside = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    inside.filters["tojson"] = _to_json  # Jinja's own is for HTML, and escapes
    return inside.from_string(template, globals={"raise_exception": _refuse, "strftime_now": _now})


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)
