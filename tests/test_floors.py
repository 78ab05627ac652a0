"""The house's one order: a file imports from its own folder or from its left, and family names stop at the door."""

import ast
import re
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[1] / "src" / "clearhead"
ORDER = [
    *("fields", "config", "tap", "reference", "formulas", "text", "model", "families", "generation", "lens", "checker"),
    *("lesson", "view", "train", "demo", "cli"),
]
FORBIDDEN = {"lens": {"generation"}, "view": {"families"}}
FAMILIES = re.compile(
    r"(?i)(gpt|llama|qwen|gemma|mistral|bert|t5|bart|marian|m2m|nllb|pegasus|whisper|pythia|neox|olmo|phi)(?![a-z])"
)
FILES = sorted(HOUSE.rglob("*.py"))


def floor(path: Path) -> str:
    return path.relative_to(HOUSE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [node.module or ""] if node.module != "clearhead" else [f"clearhead.{a.name}" for a in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("clearhead.") and "__" not in name}
    return found


def test_every_folder_has_its_floor() -> None:
    assert {floor(f) for f in FILES} - {"__init__", "__main__"} <= set(ORDER)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(HOUSE)))
def test_imports_come_from_the_left(path: Path) -> None:
    here = floor(path)
    if here in ("__init__", "__main__"):
        return
    for there in imports(ast.parse(path.read_text())):
        assert ORDER.index(there) <= ORDER.index(here), f"{here} must not import {there}"
        assert there not in FORBIDDEN.get(here, set()), f"{here} must not import {there}"


@pytest.mark.parametrize("path", [f for f in FILES if floor(f) not in ("families", "fields")], ids=lambda p: p.name)
def test_family_names_stop_at_the_door(path: Path) -> None:
    tree = ast.parse(path.read_text())
    docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    for node in ast.walk(tree):
        words = [node.id] if isinstance(node, ast.Name) else [node.attr] if isinstance(node, ast.Attribute) else []
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            words = [node.name]
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            words = [node.value]
        for word in words:
            assert not FAMILIES.search(word), f"line {node.lineno}: {word!r} names a family"


@pytest.mark.parametrize("folder", ["config", "fields.py", "tap.py", "reference.py", "__init__.py", "cli"])
def test_no_torch_at_import(folder: str) -> None:
    files = sorted((HOUSE / folder).rglob("*.py")) or [HOUSE / folder]
    for tree in (ast.parse(file.read_text()) for file in files):
        top = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
        assert not [n for n in top if "torch" in ast.unparse(n)]
