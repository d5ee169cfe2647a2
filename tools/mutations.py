"""The changes that mutation tests make: one expression or statement of a module at a time."""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult, ast.Mod: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
#: Nodes that are not mutated: messages, imports, and what only guards against errors of the module itself.
SKIPPED = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert)
SKIPPED_FIELDS = ("annotation", "returns", "decorator_list", "type_params", "bases")


@dataclass(frozen=True)
class Mutant:
    """One change: file below src/sight, line, function, kind, and the changed lines before and after."""

    file: str
    line: int
    function: str
    kind: str
    before: str
    after: str
    start: int  # characters of the file that `text` replaces
    end: int
    text: str
    result: str = ""  # killed, timeout, survived or equivalent
    failed: str = ""  # the test that killed it
    seconds: float = 0.0

    def rank(self, seed: int) -> str:
        """Return the hash by which the sample is chosen."""
        return hashlib.sha256(repr((seed, self.file, self.function, self.before, self.after)).encode()).hexdigest()


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield kind and replacement of each mutation of one node."""
    changed = copy.deepcopy(node)
    match changed:
        case ast.Compare(ops=[operator, *_]) if type(operator) in SWAPS:
            changed.ops[0] = SWAPS[type(operator)]()
            yield "comparison", changed
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in SWAPS:
            changed.op = SWAPS[type(operator)]()
            yield "arithmetic", changed
        case ast.BoolOp(op=operator):
            changed.op = SWAPS[type(operator)]()
            yield "boolean", changed
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield "boolean" if isinstance(changed.op, ast.Not) else "arithmetic", changed.operand
        case ast.IfExp():
            yield "boolean", ast.IfExp(changed.test, changed.orelse, changed.body)
        case ast.Constant(value=bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield "constant", ast.Constant(value + 1 if isinstance(value, int) else value * 2 or 1.0)
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "return", ast.Return(ast.Constant(None))
        case ast.Slice(lower=lower, upper=upper) if lower or upper:
            yield "slice", ast.Slice(None, upper, changed.step) if lower else ast.Slice(lower, None, changed.step)
        case ast.Expr(value=ast.Call()):
            yield "statement", ast.Pass()


def walk(node: ast.AST, function: str = "", kind: str = "") -> Iterator[tuple[ast.AST, str, str]]:
    """Yield nodes that may change, with their function and the kind that overrides theirs."""
    if isinstance(node, SKIPPED) or (isinstance(node, ast.keyword) and node.arg == "strict"):
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".lstrip(".")
    if not isinstance(node, ast.Module):
        yield node, function, kind
    for name, value in ast.iter_fields(node):
        if name in SKIPPED_FIELDS:
            continue
        below = "default" if name in ("defaults", "kw_defaults") or isinstance(node, ast.AnnAssign) else kind
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from walk(child, function, below)


def mutants(file: str, source: str) -> Iterator[Mutant]:
    """Yield all mutants of a module."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def position(line: int, byte: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:byte].decode())

    for node, function, kind in walk(ast.parse(source)):
        if not hasattr(node, "lineno"):
            continue
        start, end = position(node.lineno, node.col_offset), position(node.end_lineno, node.end_col_offset)
        for usual, changed in changes(node):
            text = ast.unparse(ast.fix_missing_locations(changed))
            text = f"({text})" if isinstance(changed, ast.expr) and not isinstance(changed, ast.Slice) else text
            whole = source[starts[node.lineno - 1] : starts[node.end_lineno]]
            after = source[starts[node.lineno - 1] : start] + text + source[end : starts[node.end_lineno]]
            before, after = (" ".join(part.split()) for part in (whole, after))
            yield Mutant(file, node.lineno, function, kind or usual, before, after, start, end, text)
