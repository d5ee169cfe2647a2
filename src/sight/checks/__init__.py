"""The contract of `sight.base.Adapter` as checks that any method can be tested with.

``check_adapter(MyMethod())`` runs all of them. A test suite parametrises over `checks` to report each by name::

    @pytest.mark.parametrize("check", sight.checks.checks(MyMethod()), ids=str)
    def test_contract(check):
        check()
"""

from dataclasses import dataclass

from sight.base import Adapter, Source
from sight.checks._behaviour import CHECKS
from sight.checks._case import Case, CheckFailed
from sight.types import Windows

__all__ = ["CHECKS", "Case", "Check", "CheckFailed", "check_adapter", "checks"]


@dataclass(frozen=True)
class Check:
    """One check of one method; call it to run it."""

    name: str
    case: Case

    def __call__(self) -> None:
        CHECKS[self.name](self.case)

    def __str__(self) -> str:
        return self.name


def checks(
    adapter: Adapter, source: Source | None = None, stream: Windows | None = None, twin: Source | None = None
) -> list[Check]:
    """Return every check of an adapter; see `check_adapter` for the parameters."""
    adapter = adapter() if isinstance(adapter, type) else adapter
    case = Case(adapter=adapter, given_source=source, given_stream=stream, twin=twin)
    return [Check(name, case) for name in CHECKS]


def check_adapter(
    adapter: Adapter, source: Source | None = None, stream: Windows | None = None, twin: Source | None = None
) -> None:
    """Run every check on an adapter; raise `CheckFailed` at the first that fails.

    Parameters
    ----------
    adapter
        The method with the hyper-parameters to check, or its class; it is cloned, never changed.
    source, stream
        Source and stream to check it with; toys if None.
    twin
        The same model as `source` in another form, such as its ONNX export; predictions must be the same.

    Examples
    --------
    >>> from sight.methods.sticky import Sticky
    >>> check_adapter(Sticky(s=0.5))
    """
    for check in checks(adapter, source, stream, twin):
        check()
