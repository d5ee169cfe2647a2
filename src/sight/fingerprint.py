"""What code made a result, as a hash: results are kept for as long as their code stays as it was.

Code is a file with all modules of this package that it imports, and those that they import, also inside functions. Of
other packages only the file itself is seen. The front door ``sight/__init__.py`` is left out, as it leads everywhere;
so is what the registry finds by name when something runs, and who depends on that asks for its code too.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path

#: The package.
HOME = Path(__file__).parent


@cache
def class_fingerprint(cls: type) -> str:
    """Hash the code that a class stands on; what somebody goes on writing is run anew.

    Examples
    --------
    >>> from sight.methods.keel import Keel
    >>> len(class_fingerprint(Keel)), class_fingerprint(int)
    (12, '')
    """
    try:
        return hash_files(imported_files(Path(inspect.getsourcefile(cls) or "")))
    except (OSError, TypeError):
        return ""


@cache
def module_fingerprint(name: str) -> str:
    """Hash the code that a module of this package stands on, without importing it.

    Examples
    --------
    >>> len(module_fingerprint("sight.train"))
    12
    """
    return hash_files(imported_files(*_files(name)))


def imported_files(*files: Path) -> list[Path]:
    """List files and those of this package that they import, and so on; the given ones first, the others sorted.

    Examples
    --------
    >>> [file.name for file in imported_files(HOME / "methods" / "ema.py")]
    ['ema.py', 'base.py', 'ops.py', 'types.py']
    """
    found = list(files)
    for file in found:  # grows on the way
        imported = {path for name in _imported(file.read_bytes()) for path in _files(name)}
        found += sorted(imported.difference(found))
    return [*files, *sorted(found[len(files) :])]


def hash_files(files: Iterable[Path]) -> str:
    """Hash the content of some files, in this order."""
    parts = (blake2b(file.read_bytes()).digest() for file in files)
    return blake2b(b"".join(parts), digest_size=6).hexdigest()


@cache
def _imported(source: bytes) -> frozenset[str]:
    """Names of this package that a source imports: modules, and what is taken from them, as ``module.thing``."""
    names: set[str] = set()
    for node in _executed(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(name for name in names if name.startswith("sight."))


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree without its ``if TYPE_CHECKING:`` blocks, which never run."""
    yield tree
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            yield from _executed(node)


def _files(name: str) -> list[Path]:
    """Files of a module, or of the one that holds a thing of this name; none for the package itself."""
    parts = name.split(".")[1:]
    if parts[:1] == ["kernels"]:  # which of them answers is chosen on the machine
        return sorted((HOME / "kernels").glob("*.py"))
    for inner in filter(None, (parts, parts[:-1])):
        path = HOME.joinpath(*inner)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return [file]
    return []
