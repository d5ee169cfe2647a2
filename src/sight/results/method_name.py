"""The name of a method as tables, report and citations show it, with its changed hyper-parameters and its lag."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from sight import registry
from sight.types import Result


def method_name(result: Result) -> str:
    """Return the name of what made the predictions, such as "keel(align=0), whole recording".

    Hyper-parameters are named if they differ from the defaults, and all of them for a method that is not installed.
    """
    changed = ", ".join(_changed(result))
    method = f"{result.method}({changed})" if changed else result.method
    return f"{method}{result.name.removeprefix(result.method)}"


def method_label(result: Result) -> str:
    """Return the name for tables in reports; a star marks a method whose authors did not publish their code."""
    return f"{method_name(result)}{result.label.removeprefix(result.name)}"


def _changed(result: Result) -> Iterator[str]:
    defaults: dict[str, Any] = {}
    with suppress(ValueError, ImportError):  # a method of another package, or of one that is not installed here
        defaults = registry.method(result.method).params()
    for name, value in result.params.items():
        if name not in defaults or value != defaults[name]:
            yield f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
