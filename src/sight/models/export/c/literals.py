"""Constants as C source: numbers, names and arrays."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sight.types import Array

#: C type by numpy type.
TYPES = {"float32": "float", "float64": "double", "int8": "int8_t", "uint16": "uint16_t", "int32": "int32_t"}
#: Numbers in one line of an array.
PER_LINE = 12


def number(value: Any, *, double: bool = False) -> str:
    """Return a number as a C literal.

    >>> number(0.25), number(0.1, double=True), number(3), number(True)
    ('0.25f', '0.1', '3', '1')
    """
    if not isinstance(value, float | np.floating):
        return str(int(value))
    if not np.isfinite(value if double else np.float32(value)):
        raise ValueError(f"Expected a finite number for C, got {value}.")
    return repr(float(value)) if double else f"{np.float32(value)!s}f"


def defines(prefix: str, values: Mapping[str, Any], *, double: bool = False) -> list[str]:
    """Return lines that define numbers, and words as names: ``#define METHOD_HABIT METHOD_HABIT_SQRT``."""
    lines = []
    for name, value in values.items():
        key = f"{prefix}_{name.upper()}"
        text = f"{key}_{value.upper()}" if isinstance(value, str) else number(value, double=double)
        lines.append(f"#define {key} {text}")
    return lines


def array(name: str, values: Array, *, sizes: str | None = None) -> str:
    """Return the definition of a constant array; `sizes` are its sizes in brackets, taken from the shape if None.

    >>> print(array("PRIOR", np.array([0.5, 0.5], np.float32)))
    static const float PRIOR[2] = {
        0.5f, 0.5f,
    };
    """
    sizes = sizes or "".join(f"[{size}]" for size in values.shape)
    return f"static const {TYPES[str(values.dtype)]} {name}{sizes} = {{\n{_rows(values, 1)}}};"


def _rows(values: Array, depth: int) -> str:
    indent = "    " * depth
    if values.ndim > 1:
        return "".join(f"{indent}{{\n{_rows(row, depth + 1)}{indent}}},\n" for row in values)
    texts = [number(value, double=values.dtype == np.float64) for value in values]
    lines = (texts[first : first + PER_LINE] for first in range(0, len(texts), PER_LINE))
    return "".join(f"{indent}{', '.join(line)},\n" for line in lines)


def header(guard: str, comment: str, lines: Iterable[str]) -> str:
    """Return a generated header file."""
    body = "\n".join(lines)
    return f"/* {comment} */\n#ifndef {guard}\n#define {guard}\n\n{body}\n\n#endif\n"


def quoted(text: str) -> str:
    r"""Return a text as a C string: printable ASCII as it is, other bytes of UTF-8 as octal numbers.

    >>> print(quoted('a "b" é'))
    "a \"b\" \303\251"
    """
    special = {ord("\\"): "\\\\", ord('"'): '\\"', ord("?"): "\\?"}  # ?? would begin a trigraph
    letters = (special.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in text.encode())
    return '"' + "".join(letters) + '"'
