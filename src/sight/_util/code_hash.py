"""Hashes of the code behind a result; a stored result is valid as long as the hash of its code is the same.

The hash covers a file and all modules of this package that it imports, directly or indirectly, also inside functions
and as text ``"module:name"`` that is imported on demand. Of other packages it covers only the given file. Left out are
``sight/__init__.py`` and the registry, through which everything can be reached.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path

#: Folder of the package.
HOME = Path(__file__).parents[1]
#: Modules that are not followed.
EXCLUDED = ("sight.registry",)
_LAZY = re.compile(r"sight(\.\w+)+:\w+")


@cache
def class_fingerprint(cls: type) -> str:
    """Return the hash of the code that a class depends on; empty if it has no source file."""
    try:
        return hash_files(imported_files(Path(inspect.getsourcefile(cls) or "")))
    except (OSError, TypeError):
        return ""


@cache
def module_fingerprint(name: str) -> str:
    """Return the hash of the code that a module of this package depends on, without importing it."""
    return hash_files(imported_files(*_files(name)))


def imported_files(*files: Path) -> list[Path]:
    """Return the files and those of this package that they import, directly or indirectly; the given ones first."""
    found = list(files)
    for file in found:  # grows during the loop
        imported = {path for name in _imported(file.read_bytes()) for path in _files(name)}
        found += sorted(imported.difference(found))
    return [*files, *sorted(found[len(files) :])]


def hash_files(files: Iterable[Path]) -> str:
    parts = (blake2b(file.read_bytes()).digest() for file in files)
    return blake2b(b"".join(parts), digest_size=6).hexdigest()


@cache
def _imported(source: bytes) -> frozenset[str]:
    names: set[str] = set()
    for node in _executed(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _LAZY.fullmatch(node.value):
            names.add(node.value.replace(":", "."))
    return frozenset(name for name in names if name.startswith("sight.") and not name.startswith(EXCLUDED))


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    yield tree
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            yield from _executed(node)


def _files(name: str) -> list[Path]:
    parts = name.split(".")[1:]
    for inner in filter(None, (parts, parts[:-1])):
        path = HOME.joinpath(*inner)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return [file]
    return []
