"""What the source says about itself: names, words, shapes. Read, never trusted over what running shows."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cached_property

from clearhead.checker.subject import Subject

NEGATED = r"(?:not|never|cannot|can't|mustn't)"
TRUE, FALSE = r"(?:\btrue\b|\bones?\b|\b1s?\b|\bnon-?zeros?\b)", r"(?:\bfalse\b|\bzeros?\b|\b0s?\b)"
HIDDEN = r"(?:hid|mask|ignor|\bpad|forbid|block|drop|exclud|disallow|prevent|invisible|future|unseen)"
SEEN = (
    r"(?:may attend|\battend|keep|kept|visible|valid|allow|real|\bsee\b|\bseen\b|\blook|participat|\buse|"
    r"takes? part|\btokens?\b|\bwords?\b)"
)
OF_TRUE, OF_FALSE = rf"(?:(?!{FALSE})[^.;,\n]){{0,40}}", rf"(?:(?!{TRUE})[^.;,\n]){{0,40}}"
PLAIN_TRUE = rf"(?:(?!{FALSE}|{NEGATED}|{HIDDEN})[^.;,\n]){{0,40}}"
HIDE = (
    rf"{TRUE}{OF_TRUE}(?:{HIDDEN}|{NEGATED})",
    rf"{FALSE}(?:(?!{TRUE}|{NEGATED}|{HIDDEN})[^.;,\n]){{0,40}}{SEEN}",
    r"(?:hid|mask(?:ed)?|ignor\w*|pad\w*|forbid\w*|block\w*)[^.;,\n]{0,25}(?:=|where|when|"
    r"is|are|positions?) *(?:true|1)\b",
)
KEEP = (
    rf"{TRUE}{PLAIN_TRUE}{SEEN}",
    rf"{FALSE}{OF_FALSE}(?:{HIDDEN}|{NEGATED})",
    r"(?:keep|attend\w*|visible|allowed|valid|real)[^.;,\n]{0,25}(?:=|where|when|is|are) *(?:true|1)\b",
    r"(?:mask(?:ed)?|hidden|pad\w*)[^.;\n]{0,30}(?:==|=|\bis|\bare) *(?:0|false|zeros?)\b",
    r"(?:\btrue\b|nonzero|non-zero)[^.;,\n]{0,30}(?:visible|keep|kept|takes? part|seen)",
)
ADD = (
    r"additive",
    r"added to the (?:scores|logits|energ)",
    r"0 (?:/|or|and) ?-?\W?inf",
    r"-inf(?:inity)? (?:where|for|at)",
    r"\bbias\b.{0,30}added",
)


class Source:
    """One candidate of a file: a function or a class, by name; or the whole file."""

    def __init__(self, subject: Subject, name: str | None = None) -> None:
        self.subject, self.name = subject, name
        self.node = next((n for n in subject.tree.body if getattr(n, "name", None) == name), None) if name else None

    @cached_property
    def text(self) -> str:
        return self.subject.text

    @cached_property
    def own(self) -> str:
        """The candidate's code with its comments, and that of the helpers of the file that it calls."""
        if self.node is None:
            return self.text
        seen, todo = [], [self.node]
        while todo:
            node = todo.pop(0)
            seen.append(node)
            called = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            todo += [n for n in self.subject.tree.body if getattr(n, "name", None) in called and n not in seen + todo]
        lines = self.text.splitlines()
        return "\n".join(line for node in seen for line in lines[node.lineno - 1 : node.end_lineno])

    @cached_property
    def docs(self) -> str:
        """Docstrings and comments of the candidate and of the module's head."""
        parts = [ast.get_docstring(self.subject.tree) or "", comments(self.own), leading(self.text)]
        tree = _parse(self.own)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                parts.append(ast.get_docstring(node) or "")
        return "\n".join(parts)

    @cached_property
    def code(self) -> str:
        """The candidate without comments and docstrings."""
        tree = _parse(self.own)
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if (
                isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)
                and body
                and ast.get_docstring(node) is not None
            ):
                node.body = body[1:] or [ast.Pass()]
        return ast.unparse(tree)

    def says(self, pattern: str) -> bool:
        """Whether the code has it (comments and docstrings not counted)."""
        return re.search(pattern, self.code) is not None

    def tells(self, pattern: str) -> bool:
        """Whether the docs or the candidate's name have it."""
        return re.search(pattern, f"{self.name or ''}\n{self.docs}", re.IGNORECASE) is not None

    def names(self, pattern: str) -> bool:
        """Whether the first parameter has a name like this."""
        node = self.function()
        args = [a.arg for a in node.args.args if a.arg != "self"] if node else []
        return bool(args) and re.fullmatch(pattern, args[0].lower()) is not None

    def function(self) -> ast.FunctionDef | None:
        """The function itself, or a class's forward or __call__."""
        if isinstance(self.node, ast.FunctionDef):
            return self.node
        return self.method("forward") or self.method("__call__")

    def method(self, name: str) -> ast.FunctionDef | None:
        body = self.node.body if isinstance(self.node, ast.ClassDef) else []
        return next((n for n in body if isinstance(n, ast.FunctionDef) and n.name == name), None)

    def shadows(self) -> bool:
        """Whether a loop goes on from its input under the input's own name: q = q[..., i * d : ...], x = x @ W."""
        function = self.function()
        given = {a.arg for a in function.args.args} if function else set[str]()
        for loop in (n for n in ast.walk(_parse(self.own)) if isinstance(n, ast.For)):
            index = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
            for node in (n for n in ast.walk(loop) if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)):
                used = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
                target = node.targets[0]
                cut = isinstance(node.value, ast.Subscript | ast.Call) and used & index
                on = isinstance(target, ast.Name) and target.id in given and not isinstance(node.value, ast.Subscript)
                if (cut or on) and isinstance(target, ast.Name) and target.id in used:
                    return True
        return False

    def rank_of(self, *params: str) -> int | None:
        """How many axes the docs, an unpacking of .shape, or an einsum say that a parameter has."""
        for param in params:
            noted = shape_note(self.docs, param)
            if noted:
                return noted
        for param in params:
            found = re.search(
                rf"^\s*\(?([\w, *]+?)\)? *= *{re.escape(param)}\.(?:shape|size\(\))\s*$", self.code, re.MULTILINE
            )
            if found and "*" not in found[1]:
                count = len([p for p in found[1].split(",") if p.strip()])
                if count > 1:
                    return count
        return None

    def rank(self) -> int | None:
        """The rank that the code is written for, as far as axis numbers tell."""
        code = self.code
        if re.search(r"bmm\(|permute\(0, 2, 1\)|transpose\(\(?0, 2, 1\)?\)", code):
            return 3
        if re.search(
            r"transpose\((2, 3|3, 2)\)|swapaxes\(\w+, 2, 3\)|permute\(0, 1, 3, 2\)|"
            r"transpose\(0, 1, 3, 2\)|(dim|axis)=3",
            code,
        ):
            return 4
        spec = re.search(r"einsum\(['\"] *([a-zA-Z ]+),", code)
        if spec and "." not in spec[1]:
            words = spec[1].split()
            return len(words) if len(words) > 1 else len(words[0])
        if re.search(r"(dim|axis)=2\b", code) and not re.search(r"\.T\b", code):
            return 3
        return None

    def convention(self, param: str = "mask") -> str | None:
        """Which mask convention the docs or the parameter's name announce."""
        name = param.lower()
        if re.search(r"keep|valid|visible|allow|attend", name) and "attention" not in name:
            return "keep"
        if re.search(r"hid|block|forbid|ignore|exclude", name):
            return "hide"
        if re.search(r"bias|additive", name):
            return "add"
        if re.search(r"len", name):
            return "lengths"
        text = re.sub(r"\b([01])\.0?\b", r"\1", self.docs.lower())
        text = re.sub(r"\b(not|un|non)[- ]?(masked|hidden|pad\w*|ignored)", "visible", text)
        for convention, patterns in (("add", ADD), ("keep", KEEP[:1]), ("hide", HIDE), ("keep", KEEP)):
            if any(re.search(pattern, text) for pattern in patterns):
                return convention
        return None


def _parse(text: str) -> ast.Module:
    return ast.parse(text)


def comments(text: str) -> str:
    """The comments of a piece of code."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return ""
    return "\n".join(t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT)


def leading(text: str) -> str:
    """Comment lines at the head of the file."""
    lines = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            break
        lines.append(line.lstrip("# "))
    return "\n".join(lines)


def shape_note(docs: str, param: str) -> int | None:
    """The number of axes that docs give a parameter: "Q: (B, T, d)", "q, k, v [batch, heads, seq, dim]"."""
    found = shape_words(docs, param)
    return len(found) if found else None


def shape_words(docs: str, param: str) -> list[str] | None:
    """The axes as words, in order, or None. Leading dots say nothing."""
    pattern = rf"(?<![\w.]){re.escape(param)}(?![\w(.])[^\n(\[;.]{{0,60}}[(\[]([^)\]\n]*)[)\]]"
    for match in re.finditer(pattern, docs):
        inside = match[1]
        parts = [p.strip() for p in (inside.split(",") if "," in inside else inside.split())]
        fine = all(re.fullmatch(r"[A-Za-z_][\w*/+\- ]{0,18}|\d+", p) for p in parts)
        fine = fine and any(not p.isdigit() for p in parts)
        if fine and "..." not in inside and 2 <= len(parts) <= 4:
            return parts
    return None
